"""OpenAPI description of the server. The docs page is made from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
_JSON = "application/json"
Json = dict[str, Any]

# --- schemas ----------------------------------------------------------------------------------------------------------


def _value(kind: str | list[str], description: str = "", **keywords: Any) -> Json:
    """Return the schema of a value of a type, or of one of several types."""
    return {"type": kind} | ({"description": description} if description else {}) | keywords


def _object(properties: Mapping[str, str | Json], optional: Collection[str] = (), is_open: bool = False) -> Json:
    """Return the schema of an object with these properties, each a schema or a type; others only if `is_open`."""
    schemas = {name: _value(schema) if isinstance(schema, str) else schema for name, schema in properties.items()}
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": schemas, "required": required, "additionalProperties": is_open}


def _list(items: Json, **keywords: Any) -> Json:
    return {"type": "array", "items": items} | keywords


def _one_or_several(item: Json) -> Json:
    return {"oneOf": [item, _list(item, minItems=1)]}


def _numbers() -> Json:
    """Return the numbers that predictions have; one of several tasks is described by the first."""
    properties: Json = {}
    for column in COLUMNS:
        if column.in_responses:
            properties.setdefault(column.name, _value("number", column.description))
    return properties


def _content(schema: Json | None, kind: str = _JSON) -> Json:
    return {"content": {kind: {} if schema is None else {"schema": schema}}}


_CELL = _value(["number", "string", "boolean", "null", "object"])  # an object's values are named a.b
_ID = _value(["string", "integer"], minLength=1, maxLength=MAX_ID_BYTES)
_WEIGHT = _value("number", minimum=0, maximum=1_000_000)
_ROW = _value("object", additionalProperties=_CELL, example={"age": 37, "site": "a.com"})
_BODIES = {
    kind: {"schema": _value("string", format="binary") if body.binary else _value("string")}
    for body in with_bodies()
    for kind in body.media_types
} | {_JSON: {"schema": _one_or_several(_ROW)}}
_VERSION = {"version": _value("integer", "the last entry of the log that the model knew")}
_PREDICTED = {
    **_numbers(),
    "label": _value("string", "the most probable of several classes"),
    "classes": _value("object", additionalProperties=_value("number")),
    "remembered": _value("string", enum=["remembered", "known", "joined"]),
}
_PREDICTIONS = {"predictions": _list(_object(_PREDICTED, optional=_PREDICTED))}
_DUPLICATE = {"duplicate": _value("boolean", "a request with this id was learned before")}
# A single row, or several.
_ANSWER = {
    "oneOf": [
        _object(_PREDICTED | _VERSION, optional=_PREDICTED),
        _object(_PREDICTIONS | _VERSION | _DUPLICATE, optional=_DUPLICATE),
    ]
}
_LABEL = _object({"id": _ID, "label": _value(["number", "string", "boolean"]), "weight": _WEIGHT}, ("weight",), True)
_LABELS = _one_or_several(_LABEL | {"example": {"id": "a7", "label": 1}})
_JOIN: dict[str, Any] = {"id": "string", "outcome": _value("string", enum=list(OUTCOMES))}
_JOINS = {"oneOf": [_object(_JOIN | _VERSION), _object({"labels": _list(_object(_JOIN))} | _VERSION)]}
_FEATURE = _object({"feature": "string", "mean": "number", "sd": "number"}, optional=("sd",))
_FEATURES = _object({"features": _list(_FEATURE), "intercept": "number", "touched": "integer", **_VERSION})
_INFO = _object(
    {
        **dict.fromkeys(("name", "state", "learner", "task"), "string"),
        **dict.fromkeys(("examples", "weights"), "integer"),
        **_VERSION,
    },
    is_open=True,
)
_MODELS = _object({"models": _list(_value("string"))})
_ALIVE = _object({"alive": "boolean"}, is_open=True)
_READY = _object(
    {"ready": "boolean", "models": _value("object", "their states, if a token is given")}, ("models",), is_open=True
)
_ERROR = _object(
    {"error": "string", "rows": _list(_object({"index": "integer", "error": "string"}))}, optional=("rows",)
)

# --- operations -------------------------------------------------------------------------------------------------------

_REFUSALS = {
    "400": "a request that can be read in two ways, or a body that is not what its headers say",
    "401": "no token, or an unknown one",
    "403": "a token without the scope, or a read-only replica",
    "404": "no model of that name",
    "408": "a request that did not arrive in time",
    "413": "too many bytes or rows",
    "415": "an unsupported Content-Type or Content-Encoding",
    "422": "bad rows, each with its index and a sentence; nothing was done",
    "429": "too many requests wait; try again after Retry-After seconds",
    "431": "a request line and headers that are too large",
    "503": "starting, stopping, or no room on the disk or for the body; try again after Retry-After seconds",
}


def _operation(
    summary: str,
    answer: Json | None,
    kind: str = _JSON,
    *,
    parameters: Collection[Json] = (),
    bodies: Json | None = None,
    example: str = "",
) -> Json:
    """Return the description of a request: its responses, its query parameters, and the bodies that it takes."""
    responses = {"200": {"description": "done", **_content(answer, kind)}}
    responses |= {status: {"description": description, **_content(_ERROR)} for status, description in _REFUSALS.items()}
    body = {} if bodies is None else {"requestBody": {"required": True, "content": bodies}, "x-example": example}
    return {"summary": summary, "parameters": list(parameters), "responses": responses} | body


def _probe(summary: str, answer: Json) -> Json:
    """Describe a health check: it needs no token, and its 200 and 503 responses share a schema."""
    responses = {"200": {"description": "yes", **_content(answer)}, "503": {"description": "no", **_content(answer)}}
    return {"summary": summary, "security": [], "responses": responses}


def _parameter(name: str, about: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": about, "schema": schema}


_TEXT_ID = _ID | {"type": "string"}
_LEVEL = _parameter(
    "level", "how certain intervals are", _value("number", default=0.95, minimum=MIN_LEVEL, maximum=MAX_LEVEL)
)
_ROW_ID = _parameter("id", "under which the row is remembered", _TEXT_ID)
_REQUEST_ID = _parameter("request", "an id of the request: a second one with it is not learned", _TEXT_ID)
_TOP = _parameter("top", "how many", _value("integer", default=50, minimum=0, maximum=MAX_FEATURES))


def _rows_operation(summary: str, parameter: Json, example: str) -> Json:
    """Return the description of a request with rows: their predictions are the response."""
    return _operation(summary, _ANSWER, parameters=[_LEVEL, parameter], bodies=_BODIES, example=example)


_OF_MODELS = {
    "post /predict": _rows_operation(
        "Predict rows. With an id (a field `id`, or ?id= for one) a row is remembered until its label comes.",
        _ROW_ID,
        '{"age": 37, "site": "a.com"}',
    ),
    "post /learn": _rows_operation(
        "Learn rows with labels: all of them or none. The answer, once the log is on disk, is what was predicted "
        "of each before it was learned. A row with the id of one that waits for its label takes its place.",
        _REQUEST_ID,
        '{"age": 37, "site": "a.com", "label": 1}',
    ),
    "post /label": _operation(
        "Bring the label of a row that was predicted under an id: it is joined, duplicate, early (kept), unknown "
        "or late.",
        _JOINS,
        bodies={_JSON: {"schema": _LABELS}},
        example='{"id": "a7", "label": 1}',
    ),
    "get /features": _operation("The largest weights, by name.", _FEATURES, parameters=[_TOP]),
    "get /info": _operation("The learner, its recipe, what it has seen.", _INFO),
    "post /snapshot": _operation("Write what the model is now; the version written.", _object(_VERSION, is_open=True)),
    "get /events": _operation(
        "News of the model every second (server-sent events); its most surprising rows for tokens with the scope "
        "`write` alone.",
        None,
        "text/event-stream",
    ),
}
_OF_SERVER = {
    "get /models": _operation("The models' names.", _MODELS),
    "get /healthz": _probe("Whether the process is of use.", _ALIVE),
    "get /readyz": _probe("Whether all models are ready.", _READY),
    "get /metrics": _operation("Numbers for Prometheus.", None, "text/plain"),
}


def _paths(operations: Mapping[str, Json], prefix: str, shared: Json) -> Json:
    """Return operations, named such as "get /info", by path; `shared` is for all of them."""
    return {
        f"{prefix}{path}": shared | {method: operations[f"{method} {path}"]}
        for method, path in map(str.split, operations)
    }


def description(models: list[str], single: bool, tokens: bool) -> Json:
    """Return the complete description."""
    schema = {"type": "string"} | ({"enum": models} if models else {})
    named = {} if single else {"parameters": [{"name": "name", "in": "path", "required": True, "schema": schema}]}
    about: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "bayou",
            "version": __version__,
            "description": "An online learning server. What it acknowledges is on disk, and is learned once.",
        },
        "paths": _paths(_OF_MODELS, "" if single else "/models/{name}", named) | _paths(_OF_SERVER, "", {}),
    }
    if tokens:
        about["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        about["security"] = [{"token": []}]
    return about
