"""Base class of table readers, which fit the recipe to the first rows and then read them like the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.recipe.recipe import FIT_ROWS, Recipe
from bayou.sources.reading.parsed_block import ParsedBlock
from bayou.sources.reading.reader import Reader, ReadTask
from bayou.sources.table.encoding_plan import EncodingPlan


class _Nothing:
    """Placeholder task of an empty table."""

    file, first = "", True


class FittingReader(Reader):
    """Base class of table readers.

    Subclasses iterate over the tasks of a pass (`_pass`), take from a task the sample that the fit needs (`_sample`),
    fit the recipe to samples (`_fit`), and parse a task (`_parse`).
    """

    what = "the table"
    _why_empty = ""  # the error message for an empty table, where there is a more precise one
    _fit: Callable[..., Recipe]

    def __init__(self, extras: Extras, labels: bool, dtype: str) -> None:
        self._extras, self._labels, self._dtype, self._groups = extras, labels, dtype, False
        self._plan: EncodingPlan | None = None

    def read_as(self, dtype: str, groups: bool) -> None:
        self._dtype, self._groups, self._plan = dtype, groups, None

    def _sample(self, task: Any) -> tuple[Any, int]:
        """Return the sample of a task that the fit needs, and its number of rows."""
        raise NotImplementedError

    def parse(self, task: Any) -> ParsedBlock:
        return self.plan.empty() if isinstance(task, _Nothing) else super().parse(task)

    @property
    def plan(self) -> EncodingPlan:
        """Plan of the fitted recipe, created on first use."""
        if self._plan is None:
            extras = self._extras
            self._plan = EncodingPlan(
                extras.required_recipe,
                labels=self._labels,
                dtype=self._dtype,
                names=extras.names,
                numbering=extras.numbering,
                groups=self._groups,
            )
        return self._plan

    def start(self) -> None:
        """Fit the recipe to the first rows, unless it is fitted already.

        Raises:
            BadInput: if the table has no rows.
        """
        if self._extras.required_recipe.fitted:
            return
        samples = self._samples()
        if not samples:
            raise BadInput(self._why_empty or f"{self.what} has no rows; its columns cannot be inferred without rows.")
        recipe = self._extras.required_recipe
        self._extras.recipe = self._fit(recipe, samples, labels=self._labels, tell=self.set_labels)

    def _samples(self) -> list[Any]:
        """Return samples of the first FIT_ROWS rows; the tasks read for them are read again by the next pass."""
        samples, rows = [], 0

        def is_enough(task: Any) -> bool:
            nonlocal rows
            sample, more = self._sample(task)
            samples.extend([sample] * (more > 0))
            rows += more
            return rows >= FIT_ROWS

        self._look_at_first(is_enough)
        return samples

    def peek(self) -> ReadTask:
        self.start()
        return super().peek()

    def _nothing(self) -> _Nothing:
        return _Nothing()
