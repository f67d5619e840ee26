"""Labels: choice of the task from the first labels, and conversion of labels by the recipe's rule.

If the recipe does not fix the task, it is chosen once (`choose_task`):

    1, 0, -1, true, false                     binary
    two different values                      binary; the one that sorts last is positive
    at most WHOLE different integers          multiclass, if each occurs EACH times on average
    other numbers                             regression
    texts                                     multiclass

A few labels of another kind are bad lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayou.core.checks import number_from_text
from bayou.core.errors import BadInput
from bayou.core.spelling import option
from bayou.recipe.hashing import id_bytes
from bayou.recipe.recipe import Recipe

MISSING = "expected a label"
# Labels unlike the others are bad lines up to the fraction SHARE of all, if none of them occurs more than FEW times or
# in more than EACH_SHARE of all rows: that would be a class.
FEW, SHARE, EACH_SHARE = 5, 0.1, 0.01
# Maximum number of integers that are classes, and how often each must occur on average.
WHOLE, EACH = 20, 2
# More texts than MANY are classes only if they occur twice on average; more than MOST never are.
MANY, MOST = 20, 1000
# Maximum number of values listed in a message.
MAX_SHOWN_LABELS = 6
# A text label is represented by a number beyond all numbers that can be labels.
_TEXT = 2.0**60


def name_of(label: float) -> str:
    """Return the name of a class whose label is a number.

    >>> name_of(7.0), name_of(2.5)
    ('7', '2.5')
    """
    return str(int(label)) if label == math.floor(label) else repr(float(label))


def key_of(name: str) -> float:
    """Return the number that represents a label: the label itself, or the hash of a text.

    >>> key_of("7.0"), key_of("7"), key_of("spam") >= 2**60
    (7.0, 7.0, True)
    """
    number = number_from_text(name)
    return _TEXT + 256.0 * (id_bytes(name.strip(" \t").encode()) >> 12) if math.isnan(number) else number


def is_text(labels: Any) -> Any:
    """Return whether each label, as a number from `key_of`, is a text."""
    return labels >= _TEXT


@dataclass(frozen=True)
class LabelCounts:
    """Labels of the first rows: `counts` of each, as text, and the `subject` of messages about them."""

    counts: Mapping[str, int]
    subject: str = "the label"

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def listed(self) -> str:
        names = list(self.counts)
        return ", ".join(names[:MAX_SHOWN_LABELS]) + ", ..." * (len(names) > MAX_SHOWN_LABELS) if names else "none"

    def is_rare(self, texts: Iterable[str]) -> bool:
        """Return whether these labels are so rare that they are considered mistakes."""
        often = [self.counts[text] for text in texts]
        most = max(often, default=0)
        return sum(often) <= max(1, SHARE * self.rows) and most <= max(FEW, EACH_SHARE * self.rows)


# Callback that receives a sentence on the labels, and the number of classes if multiclass, else 0.
Tell = Callable[[str, int], None]


def choose_task(recipe: Recipe, labels: LabelCounts, tell: Tell | None = None) -> Recipe:
    """Return the recipe with its task chosen; raise BadInput if the labels contradict it.

    >>> recipe = choose_task(Recipe(kind="table"), LabelCounts({"ham": 90, "spam": 10}))
    >>> recipe.task, recipe.positive
    ('binary', 'spam')
    >>> choose_task(Recipe(), LabelCounts({"a": 5, "b": 7, "c": 2})).task
    'multiclass'
    >>> choose_task(Recipe(), LabelCounts({"0": 5, "1": 7})).positive is None
    True
    """
    changes, words = _decision(recipe, labels)
    recipe = replace(recipe, **changes)
    if tell is not None:
        tell(words, len(labels.counts) if recipe.task == "multiclass" else 0)
    return recipe


def _decision(recipe: Recipe, labels: LabelCounts) -> tuple[dict[str, Any], str]:
    """Return the changes to the recipe, and a sentence that explains them."""
    subject, counts = labels.subject, labels.counts
    numbers = {text: number for text in counts if not math.isnan(number := number_from_text(text))}
    truths = [text for text in counts if text.lower() in ("true", "false")]
    strange = LabelCounts({text: often for text, often in counts.items() if text not in numbers})
    odd = next(iter(strange.counts), None)
    no_numbers = bool(truths) or strange.rows > labels.rows / 2
    if recipe.task == "regression":
        if no_numbers:
            raise BadInput(f"{subject} holds {odd!r}, but regression predicts numbers.")
        return {}, f"{subject} is a number, and predicted as one"
    if recipe.task == "multiclass":
        return {}, _several(labels)
    if recipe.label_above is not None and odd is not None and not numbers:
        raise BadInput(f"{option('label_above')} needs numbers, but {subject} holds {odd!r}.")
    if recipe.positive is not None or recipe.label_above is not None:
        return {}, ""
    plain = {text for text, number in numbers.items() if number in (0.0, 1.0, -1.0)} | set(truths)
    others = [text for text in counts if text not in plain]
    if not others or (len(plain) > 1 and labels.is_rare(others)):
        return {"task": "binary"}, ""
    ordered = sorted(counts, key=lambda text: (text in numbers, numbers.get(text, 0.0), text))
    if len({numbers.get(text, text) for text in counts}) == 2:
        negative, positive = ordered[0], ordered[-1]
        words = f"{subject} is {positive} (positive) or {negative}; {option('positive', negative)} reverses this"
        return {"task": "binary", "positive": positive, "negative": negative}, words
    if recipe.task == "binary":
        how = f"{option('positive')} or {option('label_above')}"
        raise BadInput(f"{subject} holds {labels.listed()}; specify the positive class with {how}.")
    different = set(numbers.values())
    if numbers and labels.is_rare(strange.counts):
        return _numbers(labels, different)
    if numbers and not no_numbers:
        _check_spoiled(labels, strange, different)
    return _texts(labels)


def _check_spoiled(labels: LabelCounts, strange: LabelCounts, different: set[float]) -> None:
    """Raise BadInput for numbers mixed with many `strange` labels, unless all can be classes; infinities cannot."""
    endless = all(text.strip("+-").lower() in ("inf", "infinity") for text in strange.counts)
    if _too_many(labels) or (endless and not _few_and_whole(labels, different)):
        are = "are not numbers" if len(strange.counts) > 1 else "is not a number"
        raise BadInput(
            f"{labels.subject} holds {strange.listed()}, which {are}, in {strange.rows:,} of the first "
            f"{labels.rows:,} "
            f"rows; the others hold numbers. Fix the data, or use "
            f"{option('task', 'regression')}, which skips those rows, or {option('positive', 'NAME')}, which separates "
            "one value from all others."
        )


def _texts(labels: LabelCounts) -> tuple[dict[str, Any], str]:
    if _too_many(labels):
        raise BadInput(
            f"{labels.subject} has {len(labels.counts):,} different values in the first {labels.rows:,} rows "
            f"({labels.listed()}), which are too many to be classes. Is it the right column? "
            f"{option('positive', 'NAME')} separates one value from all others."
        )
    return {"task": "multiclass"}, _several(labels)


def _too_many(labels: LabelCounts) -> bool:
    """Return whether there are too many different labels for classes."""
    return len(labels.counts) > MOST or len(labels.counts) > max(MANY, labels.rows / 2)


def _few_and_whole(labels: LabelCounts, different: set[float]) -> bool:
    """Return whether the numbers `different` can be classes: few integers that occur often enough."""
    return all(map(float.is_integer, different)) and len(different) <= min(WHOLE, labels.rows / EACH)


def _numbers(labels: LabelCounts, different: set[float]) -> tuple[dict[str, Any], str]:
    if _few_and_whole(labels, different):
        return {"task": "multiclass"}, _several(labels) + f"; {option('task', 'regression')} predicts the number"
    return {"task": "regression"}, (
        f"{labels.subject} is a number, and predicted as one; {option('task', 'multiclass')} treats its values "
        f"as classes, {option('label_above')} makes two classes of them"
    )


def _several(labels: LabelCounts) -> str:
    some = "" if len(labels.counts) > MANY else f" ({labels.listed()})"
    one = option("positive", "NAME")
    return f"{labels.subject} is one of {len(labels.counts):,} classes{some}; {one} separates one from the rest"


def taken_for_one() -> str:
    """Return the warning for data in which negative labels are both 0 and -1."""
    return (
        "negative labels are written both 0 and -1, and both were read as negative; if one of them is not negative, "
        f"specify the positive class with {option('positive')} or {option('label_above')}"
    )


class NegativeForms(NamedTuple):
    """Spellings of negative labels that occur in some rows: 0, -1."""

    zeros: bool
    minus: bool


class LabelRule:
    """Rule that converts labels as written to labels for learners, and finds rows without a valid label.

    Binary: labels become 1 and -1 (or 0). With `positive`, that label is positive and any other (or only `negative`)
    is negative. With `label_above`, larger labels are positive. Otherwise 1 is positive, and -1 or 0 negative. Both in
    one stream are an error if bad lines are; if those are skipped, both are negative, with a warning, since otherwise
    all remaining rows could be positive.
    Multiclass: classes are numbered in the order of their first occurrence (`number`).
    Regression: labels stay as they are.
    """

    def __init__(self, recipe: Recipe, classes: list[str]) -> None:
        self.two = recipe.task in ("auto", "binary")
        self.several = recipe.task == "multiclass"
        self._recipe, self._classes = recipe, classes
        self._numbers = {key_of(name): number for number, name in enumerate(classes)}
        self._above = recipe.label_above
        self._positive = self._other = None
        self._negative: float | None = None
        if recipe.positive is not None and (recipe.kind != "table" or recipe.negative is not None):
            self._positive = key_of(recipe.positive)
            self._other = None if recipe.negative is None else key_of(recipe.negative)

    def read(self, raw: np.ndarray) -> np.ndarray:
        """Return the labels, NaN where one is missing or invalid. Keeps no state: any thread may call it."""
        if not self.two:
            return raw
        is_given = ~np.isnan(raw)
        if self._above is not None:
            return np.where(is_given, np.where(raw > self._above, 1.0, -1.0), np.nan)
        if self._positive is not None:
            negative = is_given if self._other is None else raw == self._other
            return np.where(raw == self._positive, 1.0, np.where(negative, -1.0, np.nan))
        return np.where((raw == 1) | (raw == 0) | (raw == -1), raw, np.nan)

    def number(self, raw: np.ndarray, texts: Mapping[float, str], add_classes: bool) -> np.ndarray:
        """Return the class number of each label. New classes are added if `join`; else they are -1."""
        labels, first, which = np.unique(raw, return_index=True, return_inverse=True)
        numbers = np.array([self._numbers.get(label, np.nan if label != label else -1) for label in labels.tolist()])
        for k in np.argsort(first):
            if numbers[k] == -1 and add_classes:
                label = float(labels[k])
                numbers[k] = self._numbers[label] = len(self._classes)
                self._classes.append(texts.get(label) or name_of(label))
        return numbers[which].astype(np.float64)

    def with_new_classes(self, names: Sequence[str]) -> list[int]:
        """Return the numbers that these classes have, or would have if they were added in this order."""
        keys = [key_of(name) for name in names]
        new = list(dict.fromkeys(key for key in keys if key not in self._numbers))
        return [self._numbers[key] if key in self._numbers else len(self._classes) + new.index(key) for key in keys]

    def add_classes(self, names: Sequence[str]) -> None:
        """Add these classes, in this order."""
        for name in names:
            if key_of(name) not in self._numbers:
                self._numbers[key_of(name)] = len(self._classes)
                self._classes.append(name)

    def negatives(self, labels: np.ndarray) -> NegativeForms:
        """Return how negative labels are written in some rows. Keeps no state, like `read`."""
        return (
            NegativeForms(bool((labels == 0).any()), bool((labels == -1).any()))
            if self.two
            else NegativeForms(False, False)
        )

    def mixed_negatives(self, labels: np.ndarray, written: NegativeForms) -> np.ndarray | None:
        """Return a mask of rows whose negative label differs from the stream's first one; None if there are none."""
        if self._negative is None and any(written):
            self._negative = float(labels[np.argmax((labels == 0) | (labels == -1))])
        if self._negative == 0:
            return labels == -1 if written.minus else None
        return labels == 0 if written.zeros else None

    def label_error(
        self, raw: float, texts: Mapping[float, str] | None = None, mixed_negatives: bool = False, advice: bool = True
    ) -> str:
        """Return the error message for a label; `advice` adds the options that set the meaning of labels."""
        if np.isnan(raw):
            return MISSING
        if mixed_negatives:
            return (
                f"expected a negative label to be {self._negative:g}, as before in this stream, not {raw:g}; "
                f"if both are negative, use {option('positive', '1')}"
            )
        if self._other is not None:
            name = (texts or {}).get(raw) or name_of(raw)
            return (
                f"expected the label {self._recipe.negative} or {self._recipe.positive}, as the first rows have, not "
                f"{name}" + f"; use {option('task', 'multiclass')} if there are more, or {option('positive')}" * advice
            )
        more = f"; say what it means with {option('positive')}, {option('label_above')} or {option('task')}" * advice
        return f"expected the label 1, 0 or -1, not {raw:g}{more}"
