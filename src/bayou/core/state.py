"""Learners as a header and arrays, and back: for files, copies and pickles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from bayou.core import checks, model_file
from bayou.core.errors import BadModel
from bayou.core.extras import Extras
from bayou.core.threads import DrainingLock
from bayou.kernels.huge_pages import HugePageAdvisor


class Storable(Protocol):
    """The part of a `Learner` that is stored; the docstring of `core.learner` describes the hooks."""

    name: ClassVar[str]
    extras: Extras
    _parameters: dict[str, Any]
    _stored_parameters: dict[str, Any]
    _unstored_parameters: ClassVar[dict[str, Any]]
    _pages: HugePageAdvisor | None
    _examples: int
    _negative: int | None
    _frozen: bool
    _lock: DrainingLock

    @property
    def _per_feature_arrays(self) -> tuple[str, ...]: ...
    def _arrays(self) -> dict[str, np.ndarray]: ...
    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None: ...
    def _check_state(self) -> None: ...


AnyStorable = TypeVar("AnyStorable", bound=Storable)


def contents_of(learner: Storable, extras: Extras | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays for a model file, with these extras or the learner's own. The state is not copied."""
    extras = learner.extras if extras is None else extras
    plain = {k: v for k, v in learner._parameters.items() if not isinstance(v, np.ndarray)}
    changed = learner._stored_parameters
    header = {
        "learner": learner.name,
        "parameters": {k: v for k, v in (plain | changed).items() if k not in changed or v is not None},
        "examples": learner._examples,
        "negative_label": learner._negative,
        "attached": extras.to_json(),
    }
    arrays = dict(learner._arrays())
    arrays |= {f"parameter:{k}": v for k, v in learner._parameters.items() if isinstance(v, np.ndarray)}
    arrays |= {f"attached:{k}": v for k, v in extras.arrays().items()}
    return header, arrays


def restore(
    cls: type[AnyStorable],
    header: Mapping[str, Any],
    arrays: Mapping[str, model_file.PackedArray],
    frozen: bool = False,
) -> AnyStorable:
    """Return a learner from the result of `contents_of`. Raise BadModel if header and arrays do not fit together."""

    def under(prefix: str) -> dict[str, np.ndarray]:
        return {k.removeprefix(prefix): v.dense() for k, v in arrays.items() if k.startswith(prefix)}

    learner = cls(**cls._unstored_parameters | header["parameters"], **under("parameter:"))
    learner._make_room({name: array.shape for name, array in arrays.items()})
    for name, own in learner._arrays().items():
        if name not in arrays or arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
            raise BadModel(f"the model has no valid array {name!r}: it is from another version, or not from bayou.")
        if name in learner._per_feature_arrays:
            touch(learner, arrays[name].rows)
        # Rows that still equal the prior are skipped, so that their memory is never touched.
        for rows, block in arrays[name].blocks():
            if not np.isfinite(block).all():
                raise BadModel(f"the model's array {name!r} holds numbers that are not finite.")
            own[rows] = block
    learner._check_state()
    if header["negative_label"] not in (None, -1, 0):
        raise BadModel(f"the model's negative_label is {header['negative_label']!r}; it must be -1, 0 or null.")
    learner._examples = checks.check_int("the model's number of examples", header["examples"], 0, 2**62)
    learner._negative = header["negative_label"]
    learner.extras = Extras.from_file(header.get("attached", {}), under("attached:"))
    learner._frozen = frozen
    return learner


def resized(learner: AnyStorable, n_features: int) -> AnyStorable:
    """Return a learner with more weights that continues from this one; new weights are at their prior."""
    header, arrays = contents_of(learner, Extras())
    header["parameters"]["n_features"] = n_features
    packed = {name: model_file.PackedArray(array.shape, None, array) for name, array in arrays.items()}
    for name in learner._per_feature_arrays:
        rows = model_file.nonzero_rows(arrays[name]).astype(np.uint32)
        packed[name] = model_file.PackedArray((n_features, *arrays[name].shape[1:]), rows, arrays[name][rows])
    return restore(type(learner), header, packed)


def copied(learner: AnyStorable) -> AnyStorable:
    """Return an independent copy of a learner."""
    with learner._lock:
        header, arrays = contents_of(learner, Extras())
        packed = {name: model_file.packed(array) for name, array in arrays.items()}
        twin = restore(type(learner), header, packed, learner._frozen)
        twin.extras = learner.extras.copy()
    return twin


def pickled(learner: Storable) -> tuple[Any, ...]:
    """Return a learner in the form of `object.__reduce__`."""
    with learner._lock:
        header, arrays = contents_of(learner)
        # Pickle reads the arrays after the lock is released, so dense ones must be copies.
        packed = {name: model_file.packed(array) for name, array in arrays.items()}
        copies = {k: p._replace(kept=p.kept.copy()) if p.rows is None else p for k, p in packed.items()}
        return restore, (type(learner), header, copies, learner._frozen)


def touch(learner: Storable, rows: np.ndarray | None) -> None:
    """Prepare the memory pages of some features' rows, or of all (None), which are about to be written."""
    if learner._pages is None:
        in_rows = isinstance(type(learner)._per_feature_arrays, tuple)  # row k is feature k
        arrays = learner._arrays() if in_rows else {}
        learner._pages = HugePageAdvisor(arrays[name] for name in learner._per_feature_arrays if name in arrays)
    if learner._pages.is_undecided:
        learner._pages.note_touched(rows)
