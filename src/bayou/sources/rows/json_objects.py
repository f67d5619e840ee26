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
    texts = block.data[: block.size - 1].tobytes().split(b"\n")
    found = [read_object(text, number) for number, text in enumerate(texts)]
    return [one for one in found if isinstance(one, dict)], [one for one in found if isinstance(one, BadLine)]


def read_object(text: bytes, number: int) -> dict[str, Any] | BadLine | None:
    """Return the flat object of a line, a BadLine if it is bad, or None if it is blank."""
    if not text.strip():
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError
        flat = _flat(found)
        if b"\\u" in text:  # only escapes can give half a surrogate pair
            "".join(flat).encode()
        return flat
    except json.JSONDecodeError as error:
        place, what = error.pos + 1, f"expected a JSON object: {error.msg.lower()}"
    except UnicodeDecodeError as error:
        place, what = error.start + 1, "expected text in UTF-8"
    except UnicodeEncodeError:
        place, what = 1, "expected a JSON object with names of whole characters, not half a surrogate pair"
    except _DuplicateKey as error:
        place, what = 1, f"expected one value for {error}, not one under a key with a dot and one inside an object"
    except RecursionError:
        place, what = 1, "expected an object that is nested less deeply"
    except (TypeError, ValueError):
        place, what = 1, 'expected a JSON object such as {"label": 1, "age": 7}'
    return BadLine(number, place, what)


def _flat(found: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return an object with nested objects flattened, their keys joined by dots."""
    if not prefix and not any(isinstance(value, dict) for value in found.values()):
        return found
    flat: dict[str, Any] = {}
    for key, value in found.items():
        parts = _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        for name, part in parts.items():
            if name in flat:
                raise _DuplicateKey(repr(name))
            flat[name] = part
    return flat


class _DuplicateKey(ValueError):
    """Error of an object that has two values under one name."""
