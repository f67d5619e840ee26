"""Formats of the page's numbers and names, and sentences that need computing. Templates escape them for HTML."""

from __future__ import annotations

import numpy as np

from bayou.evaluate.later import describe
from bayou.outputs.features import FeatureStrengths, top_positive
from bayou.report.facts import UNNAMED, RunFacts
from bayou.report.recorder import Sample, TopClass

# Two classes are nearly separable if the Brier score is below SEPARABLE of the variance of the labels. It also
# estimates p (1 - p); if that sums to less than UNCERTAIN_ROWS a weight, the scale of the weights comes from the prior.
SEPARABLE, UNCERTAIN_ROWS = 0.1, 20
# Numbers of classes named, and of features of each.
MAX_NAMED, OF_EACH = 4, 3


def later(facts: RunFacts) -> str:
    """Return a sentence on the expected loss of the frozen model, if it differs from the online loss."""
    later_loss = facts.learner.later_loss()
    if later_loss is None or not later_loss.differs:
        return ""
    return (
        f"{describe(later_loss).capitalize()}. The first is for a model that keeps learning and gets every label "
        "at once; use the second if this one is trained and then used unchanged."
    )


def mistakes(facts: RunFacts) -> str:
    """Return the commonest mistake, and which classes are separated best and worst."""
    if not facts.is_multiclass or facts.result.auc is None:
        return ""
    table, confusion = facts.result.classes, facts.result.confusion
    names, n_listed = facts.class_names(table["label"]), len(table["label"][: len(confusion)])
    text = ""
    mistakes = confusion[:n_listed, :n_listed] * (1.0 - np.eye(n_listed))
    if mistakes.any():
        actual, predicted = np.unravel_index(int(mistakes.argmax()), mistakes.shape)
        fraction = mistakes[actual, predicted] / table["mass"][actual]
        text = (
            f"The commonest mistake: {percent(float(fraction))} of {shortened(names[actual], 40)} were classified as "
            f"{shortened(names[predicted], 40)}. "
        )
    scored = np.flatnonzero(~np.isnan(table["auc"]))
    best, worst = (scored[pick(table["auc"][scored])] for pick in (np.argmax, np.argmin))
    if best == worst:
        return text
    return text + (
        f"The class separated best is {shortened(names[best], 40)} (AUC {number(table['auc'][best])}), worst "
        f"{shortened(names[worst], 40)} ({number(table['auc'][worst])})."
    )


def separation(facts: RunFacts) -> str:
    """Return a sentence on intervals if the two classes are nearly separable and weights are many."""
    rate, brier, n_weights = facts.rate or 0.0, getattr(facts.result, "brier", None), len(facts.touched)
    if brier is None or facts.is_multiclass or not brier < SEPARABLE * rate * (1.0 - rate):
        return ""
    uncertain = brier * facts.result.examples
    if uncertain >= UNCERTAIN_ROWS * n_weights:
        return ""
    return (
        f"The classes are nearly separable: only about {count(round(uncertain), 'label')} could have been different, "
        f"for {count(n_weights, 'weight')}. So the data hardly determine the scale of the weights, the prior does, and "
        "intervals of weights and of large scores may be too narrow."
    )


def signs_of_classes(facts: RunFacts) -> list[tuple[str, list[str]]]:
    """Return the features that speak most for each of the commonest classes, as (class, features)."""
    tops = [
        (name, of, top_positive(of.share * (of.mean > 0), OF_EACH)) for name, of in facts.class_strengths[:MAX_NAMED]
    ]
    return [(name, [of.name(k, UNNAMED) for k in top.tolist()]) for name, of, top in tops if len(top)]


def format_prediction(facts: RunFacts, sample: Sample, k: int) -> str:
    """Return a prediction in words: a probability as a percentage, with its class if multiclass, or a number."""
    if not facts.is_multiclass:
        return format_value(facts, sample.expected[k])
    guess = TopClass.of(sample.guess)
    (name,) = facts.class_names([guess.label[k]])
    return f"{shortened(name, 30)} {percent(guess.probability[k])}"


def label(facts: RunFacts, sample: Sample, k: int) -> str:
    """Return the actual label in words; for multiclass with the probability that was predicted for it."""
    if facts.is_multiclass:
        (name,) = facts.class_names([sample.label[k]])
        return f"{shortened(name, 30)} ({percent(sample.expected[k])})"
    return number(sample.label[k]) if facts.is_regression else ("negative", "positive")[int(sample.label[k])]


def format_value(facts: RunFacts, expected: float) -> str:
    """Return a probability as a percentage, or a number."""
    return number(expected) if facts.is_regression else percent(expected)


def row_name(line: float, row: float) -> str:
    return f"line {line:,.0f}" if line >= 0 else f"example {row + 1:,.0f}"


# --- numbers and lists ------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """Format a number with three significant digits, a large one in full; "–" for None.

    >>> number(0.478123), number(0.00123), number(12.34), number(-206855.8), number(None)
    ('0.478', '0.00123', '12.3', '−206,856', '–')
    """
    if value is None:
        return "–"
    size = abs(value)
    text = f"{value:.3f}" if 0.1 <= size < 10 else f"{value:,.0f}" if 1000 <= size < 1e9 else f"{value:.3g}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def percent(value: float | None) -> str:
    """Format a fraction as a percentage with two significant digits, and more near 1.

    >>> percent(0.5), percent(0.0123), percent(0.99951), percent(0.00001), percent(1.0)
    ('50%', '1.2%', '99.95%', '<0.01%', '100%')
    """
    if value is None:
        return "–"
    edge = min(value, 1.0 - value)
    if 0 < edge < 1e-4:
        return "<0.01%" if value < 0.5 else ">99.99%"
    digits = 0 if edge >= 0.1 or edge <= 0 else 1 if edge >= 0.01 else 2
    return f"{100 * value:.{digits}f}%"


def feature_values(strengths: FeatureStrengths, rows: np.ndarray) -> list[str]:
    """Return some features with their weights, such as "site=a +0.5"."""
    return [f"{shortened(strengths.name(k), 40)} {signed(strengths.mean[k])}" for k in rows.tolist()]


def signed(value: float) -> str:
    """Format a number with its sign and two significant digits, a large one in full.

    >>> signed(0.5), signed(-1.234), signed(1234.5)
    ('+0.5', '−1.2', '+1,234')
    """
    text = f"{value:+,.0f}" if 100 <= abs(value) < 1e9 else f"{value:+.2g}"
    return "−" + text[1:] if text.startswith("-") else text


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + "s" * (n != 1)


def shortened(text: str, max_length: int) -> str:
    """Shorten a text in its middle: a column's name precedes its value, and both matter.

    >>> shortened("marital-status=Never-married", 20)
    'marita…Never-married'
    """
    head = max_length // 3
    return text if len(text) <= max_length else text[:head] + "…" + text[len(text) - (max_length - 1 - head) :]
