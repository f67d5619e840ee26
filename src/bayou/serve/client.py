"""Client of `bayou serve`: sends rows, returns predictions, and retries without learning a row twice."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx

from bayou.core.errors import BadInput

Row = Mapping[str, Any]
# Temporary errors: too many requests, a server that is starting.
RETRY_STATUSES = (429, 503)


class ResponseError(BadInput):
    """Error response from the server.

    Attributes:
        status: the status of the response; rows: the errors of rows, each with its index.
    """

    def __init__(self, status: int, sentence: str, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(sentence)
        self.status, self.rows = status, list(rows)


class Client:
    """HTTP client of a server.

    Requests that fail because the server is busy, restarting or unreachable are retried for `patience` seconds.
    Learn requests carry an id, so that their rows are learned only once, even if a request is retried.

    Args:
        url: the address of the server, such as http://127.0.0.1:8642.
        token: a token with the scope `write`, to learn, or `read`, to predict.
        model: the name of the model, if the server has several.
        patience: seconds to keep retrying.

    >>> from bayou.serve import Client
    >>> with Client("http://127.0.0.1:8642", token="secret") as client:  # doctest: +SKIP
    ...     client.learn([{"age": 37, "site": "a.com", "label": 1}])
    ...     client.predict({"age": 35, "site": "a.com"}, id="visit 7")["probability"]
    ...     client.label("visit 7", 0)
    """

    def __init__(self, url: str, token: str | None = None, model: str | None = None, patience: float = 30.0) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._prefix = "" if model is None else f"/models/{model}"
        self._patience = patience
        self._http = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(60.0, connect=5.0))

    def predict(self, rows: Row | Sequence[Row], *, id: str | None = None, level: float = 0.95) -> Any:
        """Predict a row, or each of several; with an id the row is stored until its label arrives."""
        query: dict[str, Any] = {"level": level} | ({} if id is None else {"id": id})
        response = self._post("/predict", rows, query)
        return response if isinstance(rows, Mapping) else response["predictions"]

    def learn(self, rows: Row | Sequence[Row], *, request: str | None = None) -> Any:
        """Learn labeled rows, all or none; return the prediction made before each, or None for a duplicate request."""
        response = self._post("/learn", rows, {"request": request or uuid.uuid4().hex})
        if response.get("duplicate"):
            return None
        return response if isinstance(rows, Mapping) else response["predictions"]

    def label(self, id: str | int, label: Any, weight: float = 1.0) -> str:
        """Send the label of a row that was predicted under an id; return the outcome, such as "joined"."""
        return self._post("/label", {"id": id, "label": label, "weight": weight}, {})["outcome"]

    def labels(self, labels: Sequence[Mapping[str, Any]]) -> list[str]:
        """Send several labels, each {"id": ..., "label": ...}; return the outcome of each."""
        return [result["outcome"] for result in self._post("/label", labels, {})["labels"]]

    def features(self, top: int = 50) -> list[dict[str, Any]]:
        """Return the largest weights, by name."""
        return self._call("GET", "/features", None, {"top": top})["features"]

    def info(self) -> dict[str, Any]:
        """Return the learner, its recipe and its counters."""
        return self._call("GET", "/info", None, {})

    def snapshot(self) -> int:
        """Write a snapshot of the model to disk; return its version."""
        return self._call("POST", "/snapshot", None, {})["version"]

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the live status of the model every second."""
        with self._http.stream("GET", f"{self._prefix}/events", timeout=None) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _post(self, path: str, body: Any, query: dict[str, Any]) -> Any:
        return self._call("POST", path, json.dumps(body).encode(), query)

    def _call(self, method: str, path: str, body: bytes | None, query: dict[str, Any]) -> Any:
        until, pause = time.monotonic() + self._patience, 0.05
        while True:
            try:
                response = self._http.request(
                    method,
                    self._prefix + path,
                    content=body,
                    params=query,
                    headers={} if body is None else {"content-type": "application/json"},
                )
                if response.status_code == 200:
                    return response.json()
                refused = _refused(response)
            except httpx.TransportError as error:
                refused = ResponseError(0, f"{self._http.base_url} does not answer ({error}).")
            if refused.status not in (0, *RETRY_STATUSES) or time.monotonic() + pause > until:
                raise refused
            time.sleep(pause)
            pause = min(2.0 * pause, 1.0)


def _refused(response: httpx.Response) -> ResponseError:
    try:
        content = response.json()
        return ResponseError(response.status_code, str(content["error"]), content.get("rows", ()))
    except (ValueError, KeyError, TypeError):
        return ResponseError(response.status_code, f"the server answered {response.status_code}.")
