"""The file that keeps the live page's last hour and loss curve over a restart. Nothing depends on it but the page."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bayou.core.files import whole_file
from bayou.serve.live import History

NAME = "live.json"
# An hour of a model of many classes takes a few megabytes.
MAX_BYTES = 64 << 20


def save(folder: Path, history: History) -> None:
    """Write the history whole, for this user alone. It is not flushed: a power cut may cost it, and nothing else."""
    path = folder / NAME
    data = msgspec.json.encode(history)
    with whole_file(path, flush=False) as temporary:
        temporary.write_bytes(data)
    os.chmod(path, 0o600)


def load(folder: Path) -> tuple[History | None, str]:
    """Return what was kept, if anything was, and a sentence if it cannot be used."""
    path = folder / NAME
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        return msgspec.json.decode(path.read_bytes(), type=History), ""
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return None, f"{path} cannot be used ({reason}); the live page begins a new hour, the model is as it was."
