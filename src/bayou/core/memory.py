"""Free memory, and a check that an allocation fits into it."""

from __future__ import annotations

from bayou.core.errors import BadInput


def check_room(what: str, size: int, advice: str) -> None:
    """Raise BadInput if `what` (a noun) needs more bytes than are free; `advice` says what to do instead."""
    free = free_memory()
    if free is not None and size > free:
        raise BadInput(f"{what} take {bytes_in_words(size)} of memory; {bytes_in_words(free)} are free. {advice}.")


def free_memory() -> int | None:
    """Return the bytes of available memory, or None if the system does not report them."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def bytes_in_words(size: float) -> str:
    """Return a number of bytes with a decimal unit.

    >>> bytes_in_words(999), bytes_in_words(134_217_728)
    ('999 bytes', '134 MB')
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
