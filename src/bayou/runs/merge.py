"""Merge models into one that knows what all know: what `bayou merge` does."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bayou.core.errors import BadModel
from bayou.core.learner import Learner
from bayou.core.storage import load


def merge(models: Sequence[str | os.PathLike[str]], base: str | os.PathLike[str] | None = None) -> Learner:
    """The models in these files as one.

    Models that were resumed from another need that one as `base`; what it knew and had counted then counts once.
    """
    common = None if base is None else load(base)
    merged = load(models[0])
    for path in models[1:]:
        other = load(path)
        try:
            merged = merged.merge(other, common)
        except BadModel as error:
            raise BadModel(f"{models[0]} and {path}: {error}") from None
        except MemoryError as error:
            raise BadModel(f"{models[0]} and {path}: there is not enough memory to merge them ({error}).") from None
    return merged
