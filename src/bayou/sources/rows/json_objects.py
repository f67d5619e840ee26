"""Conversion of JSON lines to flat dictionaries, with the names of nested objects joined by dots."""

from __future__ import annotations

import json
from typing import Any

from bayou.sources.reading.blocks import TextBlock
from bayou.sources.reading.parsed_block import BadLine

# The name under which clients send the id of a row.
ID = "id"


def read_lines(block: TextBlock) -> tuple[list[dict[str, Any]], list[BadLine]]:
    """Return the flat objects and the bad lines of a block."""
    lines = block.data[: block.size - 1].tobytes().split(b"\n")
    parsed = [read_object(text, n) for n, text in enumerate(lines)]
    return [line for line in parsed if isinstance(line, dict)], [line for line in parsed if isinstance(line, BadLine)]


def read_object(text: bytes, line: int) -> dict[str, Any] | BadLine | None:
    """Return the flat object of a line, a BadLine if it is bad, or None if it is blank."""
    if not text.strip():
        return None
    try:
        parsed = json.loads(text)
        if not isinstance(parsed, dict):
            raise TypeError
        flat = _flat(parsed)
        if b"\\u" in text:  # only escapes can give half a surrogate pair
            "".join(flat).encode()
        return flat
    except json.JSONDecodeError as error:
        column, reason = error.pos + 1, f"expected a JSON object: {error.msg.lower()}"
    except UnicodeDecodeError as error:
        column, reason = error.start + 1, "expected text in UTF-8"
    except UnicodeEncodeError:
        column, reason = 1, "expected a JSON object with names that UTF-8 can encode, not half a surrogate pair"
    except _DuplicateKey as error:
        column, reason = 1, f"expected one value for {error}, not one under a key with a dot and one inside an object"
    except RecursionError:
        column, reason = 1, "expected an object that is nested less deeply"
    except (TypeError, ValueError):
        column, reason = 1, 'expected a JSON object such as {"label": 1, "age": 7}'
    return BadLine(line, column, reason)


def _flat(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return an object with nested objects flattened, their keys joined by dots."""
    if not prefix and not any(isinstance(value, dict) for value in nested.values()):
        return nested
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flattened = _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        for name, item in flattened.items():
            if name in flat:
                raise _DuplicateKey(repr(name))
            flat[name] = item
    return flat


class _DuplicateKey(ValueError):
    """Error of an object that has two values under one name."""
