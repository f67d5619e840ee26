"""Merge models into one that knows what all know: what `bayou merge` does."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from bayou import rounds, sources
from bayou.core.batch import Batch
from bayou.core.checks import positive_number
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.runs.options import names_of
from bayou.runs.resuming import marks_of
from bayou.runs.rows import Refused

Path = str | os.PathLike[str]
# Rows that the combination is learned from, at most: more would not make it better.
MOST_ROWS = rounds.HELD_OUT.high


class Merged(NamedTuple):
    """Several models as one, and what its combination was learned from, if it was learned afresh."""

    learner: Learner
    rows: int = 0
    log_loss: float | None = None


def merge(
    models: Sequence[Path], base: Path | None = None, weight: float | None = None, recombine: Any = None
) -> Merged:
    """The models in these files as one.

    Args:
        models: two or more, of one learner and recipe.
        base: the model that all were resumed from; what it knew and had counted then counts once.
        weight: that of the rows of each, if they were learned in shards, with weights (`bayou.rounds`).
        recombine: data that none of them has learned, for how to combine a bank's lanes; their last rows, if there are
            more than 100,000.
    """
    names, common = " and ".join(map(str, models)), None if base is None else load(base)
    parts = [load(path) for path in models]
    if recombine is not None:
        for path, part in zip(models, parts, strict=True):
            _check_not_learned(path, part, recombine)
    held = None if recombine is None else _rows(parts[0], recombine)
    try:
        return merge_learners(parts, common, weight, held)
    except BadModel as error:
        raise BadModel(f"{names}: {error}") from None
    except MemoryError as error:
        raise BadModel(f"{names}: there is not enough memory to merge them ({error}).") from None


def merge_learners(
    parts: Sequence[Learner],
    base: Learner | None = None,
    weight: float | None = None,
    held: Sequence[Batch] | None = None,
) -> Merged:
    """Learners as one; `held` are rows that none of them has learned."""
    if weight is not None:
        if base is None:
            raise BadInput(f"{option('weight')} is for shards of one base; name it with {option('base')}.")
        return _recombined([_in_shards(parts, base, positive_number("weight", weight))], held)
    merged = [parts[0].merge(parts[1:], base)]
    if held is not None and base is not None:
        # Nobody knows whether what they have learned adds up, or is the same in all of them; held-out rows tell.
        merged.append(_in_shards(parts, base, 1.0))
    return _recombined(merged, held)


def _in_shards(parts: Sequence[Learner], base: Learner, weight: float) -> Learner:
    """What parts have gained adds up."""
    merged = parts[0].merge(parts[1:], base)  # for all that is counted, and what is checked
    into = copy.copy(base)
    into.extras = merged.extras
    rounds.apply(into, rounds.add(rounds.gain(part, base, task) for task, part in enumerate(parts)), weight)
    return into


def _check_not_learned(path: Path, learner: Learner, data: Any) -> None:
    """Refuse files that a model has learned, as far as it knows."""
    for now in marks_of(names_of(sources.parts_or_paths(data))):
        if any(was.size == now.size and was.begins(now.path) for was in learner.extras.finished if was.size):
            raise BadInput(
                f"{option('recombine', now.path)}: {path} has learned these rows, and a combination that is learned "
                "from them trusts what remembers them best; give rows that none of the models has learned."
            )


def _rows(learner: Learner, data: Any) -> list[Batch]:
    if not hasattr(learner, "recombine"):
        raise BadInput(
            f"{option('recombine')} is for how a bank combines its lanes; {learner.name} has none. Leave it out."
        )
    source = sources.open(data, extras=Extras.of(learner), on_error="skip", groups=learner.wants_groups)
    source.label_for(learner)
    refused, held = Refused(source), list[Batch]()
    for batch in source:
        held += [part for _, part, _ in refused.accepted(batch, learner.check)]
        while sum(map(len, held[1:])) >= MOST_ROWS:
            held.pop(0)
    source.check_learned(refused.sentences, refused.count)
    return held


def _recombined(merged: list[Learner], held: Sequence[Batch] | None) -> Merged:
    """The one whose combination predicts the held-out rows best."""
    if held is None:
        return Merged(merged[0])
    losses = [cast(Any, learner).recombine(held) for learner in merged]
    best = losses.index(min(losses))
    return Merged(merged[best], sum(map(len, held)), losses[best])
