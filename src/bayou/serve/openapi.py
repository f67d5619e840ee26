"""OpenAPI description of the server. The docs page is made from it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bayou import __version__
from bayou.outputs.prediction_table import COLUMNS
from bayou.serve.label_joins import OUTCOMES
from bayou.serve.request_bodies import MAX_ID_BYTES
from bayou.sources.formats.registry import with_bodies

# Maximum number of features in a response.
MAX_FEATURES = 100_000
# Bounds of the level of intervals: learners use float32, where a level closer to 0 or 1 may round to it.
MIN_LEVEL, MAX_LEVEL = 1e-6, 1 - 1e-6

_VALUE = {"type": ["number", "string", "boolean", "null", "object"]}  # an object's values are named a.b
_ID = {"type": ["string", "integer"], "minLength": 1, "maxLength": MAX_ID_BYTES}
_WEIGHT = {"type": "number", "minimum": 0, "maximum": 1_000_000}
_ROW = {"type": "object", "additionalProperties": _VALUE, "example": {"age": 37, "site": "a.com"}}
_ROWS = {"oneOf": [_ROW, {"type": "array", "items": _ROW, "minItems": 1}]}
_BODIES = {
    kind: {"schema": {"type": "string", "format": "binary"} if body.binary else {"type": "string"}}
    for body in with_bodies()
    for kind in body.media_types
} | {"application/json": {"schema": _ROWS}}
_VERSION = {"type": "integer", "description": "the last entry of the log that the model knew"}


def _object(properties: dict[str, Any], optional: Collection[str] = (), more: bool = False) -> dict[str, Any]:
    """Return the schema of an object with these properties, and others only if `more`."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def _numbers() -> dict[str, dict[str, str]]:
    """Return the properties of numbers that a prediction has."""
    described: dict[str, dict[str, str]] = {}
    for column in COLUMNS:
        if column.in_responses:
            known = {"description": column.description} if column.description else {}
            described.setdefault(column.name, {"type": "number"} | known)
    return described


_PREDICTED = {
    **_numbers(),
    "label": {"type": "string", "description": "the most probable of several classes"},
    "classes": {"type": "object", "additionalProperties": {"type": "number"}},
    "remembered": {"type": "string", "enum": ["remembered", "known", "joined"]},
}
_PREDICTIONS = {"type": "array", "items": _object(_PREDICTED, optional=_PREDICTED)}
_DUPLICATE = {"type": "boolean", "description": "a request with this id was learned before"}
# A single row, or several.
_ANSWER = {
    "oneOf": [
        _object({**_PREDICTED, "version": _VERSION}, optional=_PREDICTED),
        _object({"predictions": _PREDICTIONS, "version": _VERSION, "duplicate": _DUPLICATE}, optional=("duplicate",)),
    ]
}
_LABEL = {
    **_object({"id": _ID, "label": {"type": ["number", "string", "boolean"]}, "weight": _WEIGHT}, ("weight",), True),
    "example": {"id": "a7", "label": 1},
}
_JOIN = {"id": {"type": "string"}, "outcome": {"type": "string", "enum": list(OUTCOMES)}}
_JOINS = {
    "oneOf": [
        _object({**_JOIN, "version": _VERSION}),
        _object({"labels": {"type": "array", "items": _object(_JOIN)}, "version": _VERSION}),
    ]
}
_FEATURE = _object({"feature": {"type": "string"}, "mean": {"type": "number"}, "sd": {"type": "number"}}, ("sd",))
_FEATURES = _object(
    {
        "features": {"type": "array", "items": _FEATURE},
        "intercept": {"type": "number"},
        "touched": {"type": "integer"},
        "version": _VERSION,
    }
)
_INFO = _object(
    {
        "name": {"type": "string"},
        "state": {"type": "string"},
        "version": _VERSION,
        "learner": {"type": "string"},
        "task": {"type": "string"},
        "examples": {"type": "integer"},
        "weights": {"type": "integer"},
    },
    more=True,
)
_MODELS = _object({"models": {"type": "array", "items": {"type": "string"}}})
_ALIVE = _object({"alive": {"type": "boolean"}}, more=True)
_READY = _object(
    {"ready": {"type": "boolean"}, "models": {"type": "object", "description": "their states, if a token is given"}},
    optional=("models",),
    more=True,
)
_ERROR = _object(
    {
        "error": {"type": "string"},
        "rows": {"type": "array", "items": _object({"index": {"type": "integer"}, "error": {"type": "string"}})},
    },
    optional=("rows",),
)
_REFUSALS = {
    "400": "a request that can be read in two ways, or a body that is not what its headers say",
    "401": "no token, or one that is not known",
    "403": "a token without the scope, or a read-only replica",
    "404": "no model of that name",
    "408": "a request that did not come in time",
    "413": "too many bytes or rows",
    "415": "a Content-Type or Content-Encoding that is not known",
    "422": "bad rows, each with its index and a sentence; nothing was done",
    "429": "too many requests wait; try again after Retry-After seconds",
    "431": "a request line and headers that are too large",
    "503": "starting, stopping, or no room on the disk or for the body; try again after Retry-After seconds",
}


def description(models: list[str], single: bool, tokens: bool) -> dict[str, Any]:
    """Return the whole description."""
    schema = {"type": "string"} | ({"enum": models} if models else {})
    named = {} if single else {"parameters": [{"name": "name", "in": "path", "required": True, "schema": schema}]}
    prefix = "" if single else "/models/{name}"
    about: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "bayou",
            "version": __version__,
            "description": "An online learning server. What it acknowledges is on disk, and is learned once.",
        },
        "paths": {f"{prefix}{path}": named | one for path, one in _OF_MODELS.items()} | _OF_SERVER,
    }
    if tokens:
        about["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        about["security"] = [{"token": []}]
    return about


def _parameter(name: str, about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": schema}


def _json(schema: dict[str, Any] | None, kind: str = "application/json") -> dict[str, Any]:
    return {"content": {kind: {} if schema is None else {"schema": schema}}}


def _open(summary: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Return an operation that needs no token, and whose responses 200 and 503 have the same schema."""
    responses = {"200": {"description": "yes", **_json(answer)}, "503": {"description": "no", **_json(answer)}}
    return {"get": {"summary": summary, "security": [], "responses": responses}}


def _get(
    summary: str, answer: dict[str, Any] | None, kind: str = "application/json", parameters: Any = ()
) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": "done", **_json(answer, kind)}}
    responses |= {status: {"description": why, **_json(_ERROR)} for status, why in _REFUSALS.items()}
    return {"get": {"summary": summary, "parameters": list(parameters), "responses": responses}}


def _post(
    summary: str, answer: dict[str, Any], body: dict[str, Any] | None = None, example: str = "", parameters: Any = ()
) -> dict[str, Any]:
    operation = _get(summary, answer, parameters=parameters)["get"]
    if body is not None:
        operation |= {"requestBody": {"required": True, "content": body}, "x-example": example}
    return {"post": operation}


_LEVEL = {"type": "number", "default": 0.95, "minimum": MIN_LEVEL, "maximum": MAX_LEVEL}
_LEVEL_PARAMETER = _parameter("level", "how certain intervals are", _LEVEL)
_ID_PARAMETER = _parameter("id", "under which the row is remembered", _ID | {"type": "string"})
_REQUEST_PARAMETER = _parameter(
    "request", "an id of the request: a second one with it is not learned", _ID | {"type": "string"}
)
_TOP = {"type": "integer", "default": 50, "minimum": 0, "maximum": MAX_FEATURES}
_OF_MODELS = {
    "/predict": _post(
        "Predict rows. With an id (a field `id`, or ?id= for one) a row is remembered until its label comes.",
        _ANSWER,
        _BODIES,
        '{"age": 37, "site": "a.com"}',
        [_LEVEL_PARAMETER, _ID_PARAMETER],
    ),
    "/learn": _post(
        "Learn rows with labels: all of them or none. The answer, once the log is on disk, is what was predicted of "
        "each before it was learned. A row with the id of one that waits for its label takes its place.",
        _ANSWER,
        _BODIES,
        '{"age": 37, "site": "a.com", "label": 1}',
        [_LEVEL_PARAMETER, _REQUEST_PARAMETER],
    ),
    "/label": _post(
        "Bring the label of a row that was predicted under an id: it is joined, duplicate, early (kept), unknown or "
        "late.",
        _JOINS,
        body={"application/json": {"schema": {"oneOf": [_LABEL, {"type": "array", "items": _LABEL, "minItems": 1}]}}},
        example='{"id": "a7", "label": 1}',
    ),
    "/features": _get("The largest weights, by name.", _FEATURES, parameters=[_parameter("top", "how many", _TOP)]),
    "/info": _get("The learner, its recipe, what it has seen.", _INFO),
    "/snapshot": _post("Write what the model is now; the version written.", _object({"version": _VERSION}, more=True)),
    "/events": _get(
        "News of the model every second (server-sent events); its most surprising rows for tokens with the scope "
        "`write` alone.",
        None,
        "text/event-stream",
    ),
}
_OF_SERVER = {
    "/models": _get("The models' names.", _MODELS),
    "/healthz": _open("Whether the process is of use.", _ALIVE),
    "/readyz": _open("Whether all models are ready.", _READY),
    "/metrics": _get("Numbers for Prometheus.", None, "text/plain"),
}
