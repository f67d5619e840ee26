"""Merging of several models into one (`bayou merge`)."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from bayou import rounds, sources
from bayou.core.batch import Batch
from bayou.core.checks import check_positive
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.runs.options import names_of
from bayou.runs.resuming import marks_of
from bayou.sources.rejected_rows import RejectedRows

Path = str | os.PathLike[str]
# The most rows to relearn the combination from: more would not improve it.
MOST_ROWS = rounds.HOLDOUT_FRACTION_MIN_MAX.high


class Merged(NamedTuple):
    """A merged model, with the rows and the log loss of relearning its combination, if that was done."""

    learner: Learner
    rows: int = 0
    log_loss: float | None = None


def merge(
    models: Sequence[Path], base: Path | None = None, weight: float | None = None, recombine: Any = None
) -> Merged:
    """Merge the models in these files into one.

    Args:
        models: two or more, of one learner and recipe.
        base: the model that all were resumed from; its examples are then counted once.
        weight: weight of the rows of each model, if they were learned as weighted shards (`bayou.rounds`).
        recombine: data that none of the models has learned, to relearn how a bank's lanes are combined; of more than
            about 100,000 rows only the last are used.
    """
    names, common = " and ".join(map(str, models)), None if base is None else load(base)
    learners = [load(path) for path in models]
    if recombine is not None:
        for path, learner in zip(models, learners, strict=True):
            _check_not_learned(path, learner, recombine)
    held_out = None if recombine is None else _rows(learners[0], recombine)
    try:
        return merge_learners(learners, common, weight, held_out)
    except BadModel as error:
        raise BadModel(f"{names}: {error}") from None
    except MemoryError as error:
        raise BadModel(f"{names}: there is not enough memory to merge them ({error}).") from None


def merge_learners(
    learners: Sequence[Learner],
    base: Learner | None = None,
    weight: float | None = None,
    held_out: Sequence[Batch] | None = None,
) -> Merged:
    """Merge learners into one; `held_out` are rows that none of them has learned."""
    if weight is not None:
        if base is None:
            raise BadInput(f"{option('weight')} is for shards of one base; name it with {option('base')}.")
        return _recombined([_in_shards(learners, base, check_positive("weight", weight))], held_out)
    merged = [learners[0].merge(learners[1:], base)]
    if held_out is not None and base is not None:
        # Whether the models' gains add up or duplicate one another is unknown; the held-out rows decide.
        merged.append(_in_shards(learners, base, 1.0))
    return _recombined(merged, held_out)


def _in_shards(models: Sequence[Learner], base: Learner, weight: float) -> Learner:
    """Merge models by adding their gains over `base`."""
    merged = models[0].merge(models[1:], base)  # for its counters and checks
    merged_model = copy.copy(base)
    merged_model.extras = merged.extras
    rounds.apply(merged_model, rounds.add(rounds.gain(model, base, task) for task, model in enumerate(models)), weight)
    return merged_model


def _check_not_learned(path: Path, learner: Learner, data: Any) -> None:
    """Raise BadInput if the model's records show that it has learned one of these files."""
    for mark in marks_of(names_of(sources.parts_or_paths(data))):
        if any(was.size == mark.size and was.is_prefix_of(mark.path) for was in learner.extras.finished if was.size):
            raise BadInput(
                f"{option('recombine', mark.path)}: {path} has learned these rows, and a combination that is learned "
                "from them trusts what remembers them best; give rows that none of the models has learned."
            )


def _rows(learner: Learner, data: Any) -> list[Batch]:
    if not hasattr(learner, "recombine"):
        raise BadInput(f"{option('recombine')} is for how a bank combines its lanes; {learner.name} has none. Omit it.")
    source = sources.open(data, extras=Extras.of(learner), on_error="skip", groups=learner.wants_groups)
    source.label_for(learner)
    refused, held_out = RejectedRows(source), list[Batch]()
    for batch in source:
        held_out += [chunk for _, chunk, _ in refused.accepted(batch, learner.check)]
        while sum(map(len, held_out[1:])) >= MOST_ROWS:
            held_out.pop(0)
    source.check_learned(refused.sentences, refused.count)
    return held_out


def _recombined(merged: list[Learner], held_out: Sequence[Batch] | None) -> Merged:
    """Relearn the combination of each merged model and return the one with the lowest loss on the held-out rows."""
    if held_out is None:
        return Merged(merged[0])
    losses = [cast(Any, learner).recombine(held_out) for learner in merged]
    best = losses.index(min(losses))
    return Merged(merged[best], sum(map(len, held_out)), losses[best])
