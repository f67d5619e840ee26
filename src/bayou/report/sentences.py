"""Results of a run in sentences. The text is plain: the caller escapes it for HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayou.evaluate.later import describe
from bayou.outputs.features import FeatureStrengths, top_positive
from bayou.report.facts import NAMED, UNNAMED, ReportedRun, RunFacts
from bayou.report.recorder import Sample, TopClass

# Weight in the mixture from which a bank counts as settled on a lane.
DOMINANT_SHARE = 0.5
# Numbers of columns or classes named, and of features of each class.
MAX_NAMED_COLUMNS, OF_EACH = 4, 3


def summary(facts: RunFacts) -> list[tuple[str, str]]:
    """Return (topic, text) pairs of one or two sentences each, the most important first."""
    if not facts.result.examples:
        return [("Nothing", "No example could be scored, so there is nothing to show.")]
    topics = [
        ("Loss", _loss(facts)),
        ("Later rows", _later(facts)),
        ("Accuracy" if facts.is_regression or facts.is_multiclass else "Ranking", _ranking(facts)),
        ("Mistakes", _mistakes(facts)),
        ("Lanes", _parts(facts)),
        ("Columns", _columns(facts)),
        ("Features", _features(facts)),
        ("Uncertainty", _uncertainty(facts)),
        ("Least sure", _unsure(facts)),
        *(("Warning", f"{warning[0].upper()}{warning[1:]}.") for warning in facts.data.warnings),
    ]
    return [(topic, text) for topic, text in topics if text]


def comparison(runs: Sequence[ReportedRun]) -> str:
    """Return a sentence that compares the losses of several runs, given in order, the best first."""
    losses = [f"{run.name} {number(run.loss)}" for run in runs]
    return (
        f"{runs[0].name} did best, and the rest of this page is about it. "
        f"The losses, over the same examples: {', '.join(losses)}."
    )


def _loss(facts: RunFacts) -> str:
    run, loss = facts.run, facts.run.loss
    name = run.loss_name.replace("_", " ")
    late_loss = facts.late_loss
    text = f"After {count(facts.result.examples, 'example')} the {name} is {number(loss)}"
    text += f"; every example was predicted before it was learned from{'.' if late_loss is None else ''}"
    text += "" if late_loss is None else f". Over the second half alone it is {number(late_loss)}."
    if facts.base_loss and loss is not None:
        won = 1.0 - loss / facts.base_loss
        guess = "the mean so far" if facts.is_regression else f"the share of positives, {percent(facts.rate)},"
        if facts.is_multiclass:
            guess = f"the shares of the {len(facts.result.classes['label'])} classes"
        text += f" Always predicting {guess} would have cost {number(facts.base_loss)}"
        text += f": the features took {percent(won)} off that." if won > 0 else ": so far the features have not helped."
    elif facts.rate is not None:
        text += f" All labels were {'positive' if facts.rate > 0.5 else 'negative'}: there was nothing to distinguish."
    held_out = run.held_out
    if run.loss_of(held_out) is not None:
        rows_of = f" ({run.held_out_rows})" if run.held_out_rows else ""
        text += f" On {count(held_out.examples, 'example')} that were held out{rows_of} the finished model has"
        text += f" {number(run.loss_of(held_out))}."
    return text


def _later(facts: RunFacts) -> str:
    """Return a sentence on the expected loss of the frozen model, if it differs from the online loss."""
    later_loss = facts.learner.later_loss()
    if later_loss is None or not later_loss.differs:
        return ""
    return (
        f"{describe(later_loss).capitalize()}. The first is for a model that keeps learning and gets every label "
        "at once; use the second if this one is trained and then used unchanged."
    )


def _ranking(facts: RunFacts) -> str:
    result = facts.result
    if facts.is_regression:
        covered = (
            ""
            if result.coverage is None
            else f"; {percent(result.coverage)} of the numbers fell inside their 90% intervals"
        )
        return f"Predictions were {number(result.mean_absolute_error)} off on average{covered}."
    if result.calibration_error is None:
        return ""
    if facts.is_multiclass:
        return (
            f"The most probable class was the right one {percent(result.accuracy)} of the time. Its probability was "
            f"{100 * result.calibration_error:.2g} percentage points off on average."
        )
    if result.auc is None:
        return ""
    return (
        f"Shown a positive and a negative, it gives the positive the higher probability {percent(result.auc)} of the "
        f"time (AUC {number(result.auc)}). Predicted and actual rates differ by {100 * result.calibration_error:.2g} "
        "percentage points on average."
    )


def _mistakes(facts: RunFacts) -> str:
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


def _parts(facts: RunFacts) -> str:
    """Return which lane the bank settled on, or its heaviest lanes, and the share of stacking."""
    lanes = sorted((lane for lane in facts.parts if lane["weight"] > 0), key=lambda lane: -lane["weight"])
    if not lanes:
        return ""
    if lanes[0]["weight"] >= DOMINANT_SHARE:
        weight = percent(lanes[0]["weight"])
        text = (
            f"Of its lanes, the {facts.learner.name} settled on “{lanes[0]['name']}”, which has {weight} of the weight."
        )
    else:
        first = [f"“{lane['name']}” ({percent(lane['weight'])})" for lane in lanes[:3]]
        text = f"The {facts.learner.name} has not settled on one lane; the heaviest are {join_words(first)}."
    stacked = sum(lane["share"] for lane in facts.levels if lane["name"].startswith("stacker"))
    if stacked:
        text += f" {percent(stacked)} of its final prediction comes from stacking the lanes, which also corrects them."
    return text


def _columns(facts: RunFacts) -> str:
    """Return which columns vary the score most, each with its strongest values."""
    if facts.is_multiclass or not facts.columns:  # each class has its own
        return ""
    columns, strengths = facts.columns[:MAX_NAMED_COLUMNS], facts.strengths
    items = []
    for column in columns:
        values = feature_values(strengths, column.top_features[:2])
        examples = f"; most telling: {', '.join(values)}" if values else ""
        items.append(f"{shortened(column.name, 40)} ({number(column.spread)}{examples})")
    return f"These columns move the score the most from row to row (standard deviations): {join_words(items)}."


def _features(facts: RunFacts) -> str:
    if facts.is_multiclass:
        return _features_of_classes(facts)
    strengths = facts.strengths
    top = strengths.top(NAMED, "share")
    if not len(top):
        return ""
    names = [f"{shortened(strengths.name(k, UNNAMED), 40)} ({signed(strengths.mean[k])})" for k in top.tolist()]
    subject = "One feature carries" if len(top) == 1 else f"The {len(top)} strongest features carry"
    fraction = percent(float(strengths.share[top].sum()))
    return f"{subject} {fraction} of the variation of the score; with the mean of each weight: {', '.join(names)}."


def _features_of_classes(facts: RunFacts) -> str:
    reasons = []
    for name, strengths in facts.class_strengths[:MAX_NAMED_COLUMNS]:
        top = top_positive(strengths.share * (strengths.mean > 0), OF_EACH)
        if len(top):
            names = [shortened(strengths.name(k, UNNAMED), 40) for k in top.tolist()]
            reasons.append(f"{shortened(name, 40)} by {join_words(names)}")
    return f"What speaks most for a class, against the average one: {'; '.join(reasons)}." if reasons else ""


def _uncertainty(facts: RunFacts) -> str:
    if not facts.has_posterior:
        return (
            f"{facts.inner} keeps no posterior, so it cannot say how uncertain it is; "
            "a Bayesian learner such as the bank can."
        )
    aleatoric, epistemic = facts.late_means
    total = aleatoric + epistemic
    if total <= 0:
        return ""
    subject = "numbers" if facts.is_regression else "labels"
    return (
        f"In the second half of the run it expected a loss of {number(total)} per example. "
        f"{percent(aleatoric / total)} of that is chance in the {subject}, which more examples do not remove; "
        f"{percent(epistemic / total)} is lack of examples, which they do."
    )


def _unsure(facts: RunFacts) -> str:
    if not facts.has_posterior or not len(facts.most_uncertain):
        return ""
    sample = facts.most_uncertain
    low, high = facts.interval(sample)
    examples = [
        f"{row_name(sample.line[k], sample.row[k])} ({format_prediction(facts, sample, k)}, but it may be "
        f"{format_value(facts, low[k])} to {format_value(facts, high[k])})"
        for k in range(min(3, len(sample)))
    ]
    return f"Of the predictions kept, it was least certain of {join_words(examples)}."


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
    """
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
    """
    >>> signed(0.5), signed(-1.234), signed(1234.5)
    ('+0.5', '−1.2', '+1,234')
    """
    text = f"{value:+,.0f}" if 100 <= abs(value) < 1e9 else f"{value:+.2g}"
    return "−" + text[1:] if text.startswith("-") else text


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + "s" * (n != 1)


def join_words(items: list[str]) -> str:
    """
    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def shortened(text: str, max_length: int) -> str:
    """Shorten a text in its middle: a column's name precedes its value, and both matter.

    >>> shortened("marital-status=Never-married", 20)
    'marita…Never-married'
    """
    head = max_length // 3
    return text if len(text) <= max_length else text[:head] + "…" + text[len(text) - (max_length - 1 - head) :]
