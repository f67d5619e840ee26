"""Conversion of learners to a header and arrays, and back: for files, copies and pickles."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bayou.core import checks, model_file, registry
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras
from bayou.core.threads import DrainingLock
from bayou.kernels.huge_pages import HugePageAdvisor

if TYPE_CHECKING:
    from bayou.core.learner import Learner


class StorageMixin:
    """Base class of `Learner` that converts it to the content of a model file, and back."""

    name: ClassVar[str]
    _per_feature_arrays: ClassVar[tuple[str, ...]] = ("state",)  # the arrays with a row for each feature

    extras: Extras
    _parameters: dict[str, Any]
    _examples: int
    _negative: int | None
    _frozen: bool
    _lock: DrainingLock
    _pages: HugePageAdvisor | None = None  # memory pages of the per-feature tables

    def _arrays(self) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Resize arrays that grow with the data to these shapes, before their content is restored."""

    def touch(self, rows: np.ndarray | None) -> None:
        """Prepare the memory pages of some features' rows, or of all (None), which are about to be written."""
        if self._pages is None:
            in_rows = isinstance(type(self)._per_feature_arrays, tuple)  # row k is feature k
            arrays = self._arrays() if in_rows else {}
            self._pages = HugePageAdvisor(arrays[name] for name in self._per_feature_arrays if name in arrays)
        if self._pages.is_undecided:
            self._pages.note_touched(rows)

    def _check_state(self) -> None:
        """Raise BadModel if restored arrays could make kernels access memory out of bounds."""

    @classmethod
    def _parameters_to_header(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return parameters as stored in files, where their meaning does not depend on later defaults."""
        return parameters

    @classmethod
    def _parameters_from_header(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters from the result of `_parameters_to_header`."""
        return parameters

    def to_bytes(self) -> bytes:
        """Return the bytes of the file that `save` would write."""
        with self._lock:
            return model_file.to_bytes(*self.saved())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file. `bayou.load` returns a learner that continues bit for bit."""
        path = checks.check_path("path", path)
        with self._lock:
            header, arrays = self.saved()
            model_file.write(path, header, arrays)

    def saved(self, extras: Extras | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return header and arrays for a model file, with these extras or its own. The state is not copied."""
        extras = self.extras if extras is None else extras
        plain = {k: v for k, v in self._parameters.items() if not isinstance(v, np.ndarray)}
        header = {
            "learner": self.name,
            "parameters": self._parameters_to_header(plain),
            "examples": self._examples,
            "negative_label": self._negative,
            "attached": extras.to_json(),
        }
        arrays = dict(self._arrays())
        arrays |= {f"parameter:{k}": v for k, v in self._parameters.items() if isinstance(v, np.ndarray)}
        arrays |= {f"attached:{k}": v for k, v in extras.arrays().items()}
        return header, arrays

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Mapping[str, model_file.PackedArray]) -> Self:
        """Return a learner from the result of `saved`. Raise BadModel if header and arrays do not fit together."""

        def under(prefix: str) -> dict[str, np.ndarray]:
            return {k.removeprefix(prefix): v.dense() for k, v in arrays.items() if k.startswith(prefix)}

        parameters: dict[str, Any] = {**header["parameters"], **under("parameter:")}
        learner = cls(**cls._parameters_from_header(parameters))
        learner._make_room({name: array.shape for name, array in arrays.items()})
        for name, own in learner._arrays().items():
            if name not in arrays or arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
                raise BadModel(f"the model lacks a fitting array {name!r}; its file was not written by bayou.")
            if name in learner._per_feature_arrays:
                learner.touch(arrays[name].rows)
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
        return learner

    def resized(self, n_features: int) -> Self:
        """Return a learner with more weights that continues from this one; new weights are at their prior."""
        header, arrays = self.saved(Extras())
        header["parameters"]["n_features"] = n_features
        packed = {name: model_file.PackedArray(array.shape, None, array) for name, array in arrays.items()}
        for name in self._per_feature_arrays:
            rows = model_file.nonzero_rows(arrays[name]).astype(np.uint32)
            packed[name] = model_file.PackedArray((n_features, *arrays[name].shape[1:]), rows, arrays[name][rows])
        return self.restore(header, packed)

    def __copy__(self) -> Self:
        with self._lock:
            header, arrays = self.saved(Extras())
            twin = self.restore(header, {name: model_file.packed(array) for name, array in arrays.items()})
            twin.extras = self.extras.copy()
        twin._frozen = self._frozen
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            header, arrays = self.saved()
            # Pickle reads the arrays after the lock is released, so dense ones must be copies.
            packed = {name: model_file.packed(array) for name, array in arrays.items()}
            copies = {k: p._replace(kept=p.kept.copy()) if p.rows is None else p for k, p in packed.items()}
            return _unpickled, (type(self), header, copies, self._frozen)


def load(path: str | os.PathLike[str]) -> Learner:
    """Return the learner that `save` wrote to `path`. It continues bit for bit as if it had never been saved.

    >>> import tempfile
    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=10)
    >>> p = learner.learn(Batch.from_rows([{3: 1.0}], labels=[1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learner.save(f"{folder}/m.bayou")
    ...     again = load(f"{folder}/m.bayou")
    >>> bool((again.mean == learner.mean).all()), again.examples
    (True, 1)
    """
    path = checks.check_path("path", path)
    with model_file.open_lazily(path) as (header, arrays):
        try:
            return registry.find(header["learner"]).load().restore(header, arrays)
        except BadModel as error:
            raise BadModel(f"{path}: {error}") from None
        except MemoryError as error:
            raise BadModel(f"{path}: there is not enough memory for this model ({error}).") from None
        except (BadInput, LookupError, TypeError, AttributeError) as error:
            raise BadModel(
                f"{path}: this bayou cannot make a learner of the file ({str(error).rstrip('.')}). "
                "If a newer bayou wrote it, upgrade."
            ) from None


def _unpickled(cls: type[Learner], header: Any, arrays: Any, frozen: bool) -> Learner:
    learner = cls.restore(header, arrays)
    learner._frozen = frozen
    return learner
