"""What the server can be asked, as OpenAPI says it. The docs page is made from this."""

from __future__ import annotations

from typing import Any

from bayou import __version__

_ROW = {"type": "object", "additionalProperties": True, "example": {"age": 37, "site": "a.com"}}
_BODIES = {
    "application/json": {"schema": {"oneOf": [_ROW, {"type": "array", "items": _ROW}]}},
    "application/x-ndjson": {"schema": {"type": "string"}},
    "text/x-vw": {"schema": {"type": "string"}},
    "text/x-svmlight": {"schema": {"type": "string"}},
    "application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}},
}
_PREDICTED = {
    "type": "object",
    "properties": {
        "probability": {"type": "number", "description": "of the positive class, or of the most probable one"},
        "mean": {"type": "number", "description": "of the score (log-odds); of a number its expectation"},
        "sd": {"type": "number", "description": "standard deviation of that mean"},
        "low": {"type": "number"},
        "high": {"type": "number", "description": "low and high hold it with the probability `level`"},
        "label": {"type": "string", "description": "the most probable of several classes"},
        "classes": {"type": "object", "additionalProperties": {"type": "number"}},
        "remembered": {"type": "string", "enum": ["remembered", "known", "joined"]},
        "version": {"type": "integer", "description": "the last entry of the log that the model knew"},
    },
}
_SEVERAL = {
    "type": "object",
    "properties": {"predictions": {"type": "array", "items": _PREDICTED}, "version": {"type": "integer"}},
}
_LABEL = {
    "type": "object",
    "required": ["id", "label"],
    "properties": {"id": {"type": "string"}, "label": {}, "weight": {"type": "number", "default": 1}},
    "example": {"id": "a7", "label": 1},
}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string"},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"index": {"type": "integer"}, "error": {"type": "string"}},
            },
        },
    },
}
_REFUSALS = {
    "400": "a body that is not what its headers say",
    "401": "no token, or one that is not known",
    "403": "a token without the scope, or a read-only replica",
    "408": "a body that did not come in time",
    "413": "too many bytes or rows",
    "415": "a Content-Type or Content-Encoding that is not known",
    "422": "bad rows, each with its index and a sentence; nothing was done",
    "429": "too many requests wait; try again after Retry-After seconds",
    "503": "starting, stopping, or no room on the disk; try again after Retry-After seconds",
}


def description(models: list[str], single: str | None, tokens: bool) -> dict[str, Any]:
    """All of it."""
    prefix = "" if single is not None else "/models/{name}"
    about: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "bayou",
            "version": __version__,
            "description": "An online learning server. What it acknowledges is on disk, and is learned once.",
        },
        "paths": {f"{prefix}{path}": _with_name(one, single, models) for path, one in _of_models().items()},
    }
    about["paths"] |= {
        "/healthz": {"get": _operation("Whether the process is of use.", {"type": "object"}, refusals=("503",))},
        "/readyz": {"get": _operation("Whether all models are ready.", {"type": "object"}, refusals=("503",))},
        "/metrics": {"get": _operation("Numbers for Prometheus.", None, kind="text/plain", refusals=("401",))},
    }
    if tokens:
        about["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        about["security"] = [{"token": []}]
    return about


def _of_models() -> dict[str, Any]:
    level = _parameter("level", "how certain intervals are", {"type": "number", "default": 0.95})
    return {
        "/predict": {
            "post": _operation(
                "Predict rows. With an id (a field `id`, or ?id= for one) a row is remembered until its label comes.",
                {"oneOf": [_PREDICTED, _SEVERAL]},
                body=_BODIES,
                parameters=[level, _parameter("id", "under which the row is remembered", {"type": "string"})],
            )
        },
        "/learn": {
            "post": _operation(
                "Learn rows with labels: all of them or none. The answer, once the log is on disk, is what was "
                "predicted of each before it was learned. A row with the id of one that waits for its label takes its "
                "place.",
                {"oneOf": [_PREDICTED, _SEVERAL]},
                body=_BODIES,
                parameters=[
                    level,
                    _parameter(
                        "request", "an id of the request: a second one with it is not learned", {"type": "string"}
                    ),
                ],
                example='{"age": 37, "site": "a.com", "label": 1}',
            )
        },
        "/label": {
            "post": _operation(
                "Bring the label of a row that was predicted under an id: it is joined, duplicate, early (kept), "
                "unknown or late.",
                {
                    "type": "object",
                    "properties": {
                        "labels": {"type": "array", "items": {"type": "object"}},
                        "version": {"type": "integer"},
                    },
                },
                body={"application/json": {"schema": {"oneOf": [_LABEL, {"type": "array", "items": _LABEL}]}}},
                example='{"id": "a7", "label": 1}',
            )
        },
        "/features": {
            "get": _operation(
                "The largest weights, by name.",
                {"type": "object"},
                parameters=[_parameter("top", "how many", {"type": "integer", "default": 50})],
            )
        },
        "/info": {"get": _operation("The learner, its recipe, what it has seen.", {"type": "object"})},
        "/snapshot": {"post": _operation("Write what the model is now; the version written.", {"type": "object"})},
        "/events": {
            "get": _operation("News of the model every second (server-sent events).", None, "text/event-stream")
        },
    }


def _with_name(operations: dict[str, Any], single: str | None, models: list[str]) -> dict[str, Any]:
    if single is not None:
        return operations
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "enum": models}}
    return {"parameters": [name], **operations}


def _parameter(name: str, about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": schema}


def _operation(
    summary: str,
    answer: dict[str, Any] | None,
    kind: str = "application/json",
    body: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
    example: str | None = None,
    refusals: Any = None,
) -> dict[str, Any]:
    content = {kind: {} if answer is None else {"schema": answer}}
    refused = _REFUSALS if refusals is None else {status: _REFUSALS[status] for status in refusals}
    told: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "done", "content": content}}}
    for status, why in refused.items():
        said = {"application/json": {"schema": _ERROR}}
        told["responses"][status] = {"description": why, "content": said}
    if parameters:
        told["parameters"] = parameters
    if body is not None:
        told["requestBody"] = {"required": True, "content": body}
        told["x-example"] = example or '{"age": 37, "site": "a.com"}'
    return told
