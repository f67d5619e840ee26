"""PyArrow, loaded when it is first used: that takes longer than everything else before the first row of a text file.

from bayou.core.arrow import pa, pc

pa is pyarrow, pc pyarrow.compute, pq pyarrow.parquet, is_a pyarrow.types, fs pyarrow.fs
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import pyarrow.types as is_a
    from pyarrow import fs
else:

    class _Lazy:
        """A module that is imported when one of its names is first used. Names are kept, so later uses are fast."""

        def __init__(self, module: str) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # asked for by tools that inspect modules
                raise AttributeError(name)
            value = getattr(importlib.import_module(self._module), name)
            setattr(self, name, value)
            return value

    pa, pc, pq = _Lazy("pyarrow"), _Lazy("pyarrow.compute"), _Lazy("pyarrow.parquet")
    is_a, fs = _Lazy("pyarrow.types"), _Lazy("pyarrow.fs")

__all__ = ["fs", "is_a", "pa", "pc", "pq"]
