"""`bayou serve`: a durable online learning server. See docs/howto/serve.md.

    network ──▶ app ──▶ owner (one thread per model: reads, predicts, learns) ──▶ responses
                          │        ▲
                          ▼        │
                      log_writer ──▶ log (SQLite: everything that changes the model, before any response)

The log is complete: a model is a function of it, and `bayou replay` reproduces it byte for byte. Snapshots only make
a start faster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayou.serve.client import Client as Client
    from bayou.serve.client import ResponseError as ResponseError

__all__ = ["Client", "ResponseError"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from bayou.serve import client

        return getattr(client, name)
    raise AttributeError(f"module 'bayou.serve' has no attribute {name!r}")
