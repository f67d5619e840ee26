"""Description of a model in words: what it has learned from, how it reads data, its columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bayou.core.printable import printable, shorten
from bayou.recipe.recipe import Column, Recipe

if TYPE_CHECKING:
    from bayou.outputs.group_priors import GroupPrior

# Number of classes named.
CLASSES = 20


def seen(plain: dict[str, Any]) -> list[str]:
    """Return sentences on what a model has learned from, given the output of `bayou info --json`."""
    sentences = [f"{plain['examples']:,} examples learned from"]
    counters = plain["counters"] or {}
    if counters.get("nonzeros") and counters.get("examples"):
        sentences.append(f"{counters['nonzeros'] / counters['examples']:.1f} features per example")
    for loss in ("log_loss", "squared_loss"):
        if counters.get(loss) is not None:
            sentence = f"{loss.replace('_', ' ')} {counters[loss]:.5f}"
            sentences.append(f"{sentence}, each example predicted before it was learned from")
    if losses := plain["later_loss"]:
        sentence = f"{losses['measure']} {losses['expected']:.5f} (± {losses['error']:.5f}) is expected on later rows"
        sentences.append(f"{sentence}; it was {losses['learned']:.5f} over the last half, as it learned")
    if counters.get("skipped"):
        sentences.append(f"{counters['skipped']:,} bad lines skipped")
    if counters.get("runs", 1) > 1:
        sentences.append(f"in {counters['runs']} runs")
    if plain["unfinished"]:
        sentences.append("the last run was interrupted; --resume continues it")
    return sentences


def classes(counts: list[dict[str, Any]]) -> list[str]:
    """Return a line for each of the commonest classes, and one for the number of others."""
    lines = [f"{printable(shorten(record['class']))}: {record['examples']:,} examples" for record in counts[:CLASSES]]
    return lines + [f"and {len(counts) - CLASSES:,} more"] * (len(counts) > CLASSES)


def reading(recipe: Recipe) -> list[str]:
    """Return sentences on how a recipe reads data."""
    if recipe.kind == "svmlight":
        way = "indices are taken as they are, below" if recipe.exact else "features as numbered into"
    else:
        way = "features numbered as they came into" if recipe.exact else "features hashed into"
    sentences = [f"{recipe.kind} data, {way} 2^{recipe.bits} = {recipe.n_features:,}", _label(recipe)]
    if recipe.hash_all:
        sentences.append("names that are numbers are hashed, too")
    if recipe.weight is not None:
        sentences.append(f"weights from column {recipe.weight!r}")
    if recipe.pairs:
        sentences.append("pairs of " + "; ".join(" and ".join(names) for names in recipe.pairs))
    if recipe.cross:
        sentences.append("crosses of " + "; ".join(" and ".join(names) for names in recipe.cross))
    if recipe.interactions:
        sentences.append("crosses of first letters " + ", ".join(recipe.interactions))
    if recipe.ranges:
        sentences.append(
            "namespaces of features: " + ", ".join(f"{a} = {low} to {high}" for a, low, high in recipe.ranges)
        )
    if recipe.kind == "vw" and recipe.ignore:
        sentences.append("without namespaces that begin with " + ", ".join(recipe.ignore))
    if recipe.negative_rate != 1.0:
        sentences.append(f"a share of {recipe.negative_rate:g} of the negatives was kept; predictions allow for that")
    return sentences


def _label(recipe: Recipe) -> str:
    source = "label" if recipe.label is None else f"label from column {recipe.label!r}"
    if recipe.task == "regression":
        return f"{source}, a number to be predicted"
    if recipe.task == "multiclass":
        return f"{source}, one of several classes"
    if recipe.negative is not None:
        return f"{source}, {recipe.positive!r} positive, {recipe.negative!r} negative"
    if recipe.positive is not None:
        return f"{source}, positive if it is {recipe.positive!r}"
    if recipe.label_above is not None:
        return f"{source}, positive above {recipe.label_above:g}"
    return f"{source}, 1 positive, -1 or 0 negative"


def column_in_words(column: Column) -> str:
    """Return a column's role, encoding, remarks and example values in words."""
    text = f"{shorten(column.name)}: {column.role}"
    if column.edges:
        text += f", {len(column.edges) + 1} bins cut from {column.edges[0]:g} to {column.edges[-1]:g}"
    if column.role == "numeric":
        text += f", (x - {column.centre:g}) / {column.scale:g}"
    if column.knots:
        text += f", a slope from {column.knots[0]:g} to {column.knots[-1]:g}"
    if column.raw_knots:
        text += f", a raw slope from {column.raw_knots[0]:g} to {column.raw_knots[-1]:g}"
    if column.missing:
        text += f", {column.missing:.1%} missing"
    if column.parts:
        text += f", {', '.join(column.parts)}"
    remarks = "; ".join(filter(None, [column.why, column.remark]))
    text = f"{text} ({remarks})" if remarks else text
    return f"{text}: {', '.join(map(shorten, column.examples))}" if column.examples else text


def parts_in_words(lanes: list[dict[str, Any]]) -> list[str]:
    """Return a line for each lane: its name, then its numbers in columns."""
    columns = ("  ".join(f"{name} {value:8.5f}" for name, value in lane.items() if name != "name") for lane in lanes)
    return _beside([lane["name"] for lane in lanes], columns)


def priors_in_words(priors: list[GroupPrior]) -> list[str]:
    """Return a line for each column on its learned prior: the typical size of its weights."""
    sentences = (f"weights of about {prior.sd:.3g}, {prior.features:,} features met" for prior in priors)
    return _beside([shorten(prior.name) for prior in priors], sentences)


def _beside(names: list[str], lines: Iterable[str]) -> list[str]:
    width = max(map(len, names), default=0) + 2
    return [f"{name:<{width}}{text}" for name, text in zip(names, lines, strict=True)]


def value_in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(value_in_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
