"""Sources: data in files, tables and streams as batches, with memory that does not grow with the data.

source = open("clicks.svm.gz", recipe=Recipe(kind="svmlight", bits=22))
for batch in source:
    learner.learn(batch)

Names are imported on first use, so that importing the list of formats is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayou.sources.formats.registry import FORMATS

if TYPE_CHECKING:  # for type checkers; at run time __getattr__ imports these names
    from bayou.core.extras import Extras
    from bayou.recipe.recipe import Recipe
    from bayou.sources.open_data import open
    from bayou.sources.open_data import parts_or_paths as parts_or_paths
    from bayou.sources.open_data import spare_cores as spare_cores
    from bayou.sources.source import Source

__all__ = ["FORMATS", "Extras", "Recipe", "Source", "open"]

_HOME = {
    "Extras": "bayou.core.extras",
    "Recipe": "bayou.recipe.recipe",
    "Source": "bayou.sources.source",
    "open": "bayou.sources.open_data",
    "parts_or_paths": "bayou.sources.open_data",
    "spare_cores": "bayou.sources.open_data",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bayou.sources' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
