"""What a run showed, in sentences. Plain text: whoever puts it into a page escapes it."""

from __future__ import annotations

from bayou.report.facts import NAMED, Facts

# A weight in the mixture from which on a bank has settled.
SETTLED = 0.5


def summary(facts: Facts) -> list[tuple[str, str]]:
    """What about, and a sentence or two; the most important first."""
    if not facts.result.examples:
        return [("Nothing", "No example could be scored, so there is nothing to show.")]
    told = [
        ("Loss", _loss(facts)),
        ("Ranking", _ranking(facts)),
        ("Lanes", _parts(facts)),
        ("Features", _features(facts)),
        ("Uncertainty", _uncertainty(facts)),
        ("Unsure of", _unsure(facts)),
    ]
    return [(what, text) for what, text in told if text]


def _loss(facts: Facts) -> str:
    result = facts.result
    text = (
        f"After {count(result.examples, 'example')} the log loss is {number(result.log_loss)}; "
        "every example was predicted before it was learned from."
    )
    late = facts.late_loss
    if late is not None:
        text = text[:-1] + f". Over the second half alone it is {number(late)}."
    if facts.base_loss and result.log_loss is not None:
        won = 1.0 - result.log_loss / facts.base_loss
        text += (
            f" Always saying the share of positives, {percent(facts.rate)}, would have cost {number(facts.base_loss)}"
        )
        text += f": the features took {percent(won)} off that." if won > 0 else ": so far the features have not paid."
    elif facts.rate is not None:
        text += f" All labels were {'positive' if facts.rate > 0.5 else 'negative'}: there was nothing to tell apart."
    if facts.run.held_out is not None and facts.run.held_out.log_loss is not None:
        held = facts.run.held_out
        text += f" On {count(held.examples, 'example')} that were held out it is {number(held.log_loss)}."
    return text


def _ranking(facts: Facts) -> str:
    result = facts.result
    if result.auc is None or result.calibration_error is None:
        return ""
    return (
        f"Shown a positive and a negative, it gives the positive the higher probability {percent(result.auc)} of the "
        f"time (AUC {number(result.auc)}). Predicted and actual rates differ by {100 * result.calibration_error:.2g} "
        "percentage points on average."
    )


def _parts(facts: Facts) -> str:
    """What the bank settled on."""
    parts = sorted((part for part in facts.parts if part["weight"] > 0), key=lambda part: -part["weight"])
    if not parts:
        return ""
    if parts[0]["weight"] >= SETTLED:
        weight = percent(parts[0]["weight"])
        text = (
            f"Of its lanes the {facts.learner.name} settled on “{parts[0]['name']}”, which has {weight} of the weight."
        )
    else:
        first = [f"“{part['name']}” ({percent(part['weight'])})" for part in parts[:3]]
        text = f"The {facts.learner.name} has not settled on one lane; the heaviest are {listed(first)}."
    stacked = sum(part["share"] for part in facts.storeys if part["name"].startswith("stacker"))
    if stacked:
        text += f" {percent(stacked)} of its final word comes from stacking the lanes, which also corrects them."
    return text


def _features(facts: Facts) -> str:
    top = facts.influence.first(NAMED, facts.influence.share)
    if not len(top):
        return ""
    names = [f"{shortened(name, 40)} ({signed(mean)})" for name, mean in zip(top.name, top.mean, strict=True)]
    share = percent(float(top.share.sum()))
    one = len(top) == 1
    known = f"This feature carries {share}" if one else f"These {len(top)} features carry {share}"
    return f"{known} of what moves the score, the strongest first, with the mean of the weight: {', '.join(names)}."


def _uncertainty(facts: Facts) -> str:
    if not facts.has_posterior:
        return (
            f"{facts.learner.name} keeps no posterior, so it cannot say how unsure it is; "
            "a Bayesian learner such as the bank can."
        )
    aleatoric, epistemic = facts.late_means
    total = aleatoric + epistemic
    if total <= 0:
        return ""
    return (
        f"In the second half of the run it expected a loss of {number(total)} per example. "
        f"{percent(aleatoric / total)} of that is chance in the labels, which no number of such examples takes away; "
        f"{percent(epistemic / total)} is for want of examples."
    )


def _unsure(facts: Facts) -> str:
    if not facts.has_posterior or not len(facts.unsure):
        return ""
    low, high = facts.interval(facts.unsure)
    sample = facts.unsure
    told = [
        f"{place(facts, k)} ({percent(sample.probability[k])}, but it may be {percent(low[k])} to {percent(high[k])})"
        for k in range(min(3, len(sample)))
    ]
    return f"Of the predictions we kept a record of, it was most unsure of {listed(told)}."


def place(facts: Facts, k: int) -> str:
    """Where a row that it is unsure of came from."""
    return row_name(facts.unsure.line[k], facts.unsure.row[k])


def row_name(line: float, row: float) -> str:
    return f"line {line:,.0f}" if line >= 0 else f"example {row + 1:,.0f}"


# --- numbers and lists ------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """
    >>> number(0.478123), number(0.00123), number(12.3), number(None)
    ('0.478', '0.00123', '12.3', '–')
    """
    return "–" if value is None else f"{value:.3g}" if abs(value) < 0.1 or abs(value) >= 10 else f"{value:.3f}"


def percent(value: float | None) -> str:
    """Two digits that count, but all of them near 0 and 1.

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


def signed(value: float) -> str:
    """
    >>> signed(0.5), signed(-1.234)
    ('+0.5', '−1.2')
    """
    return f"{value:+.2g}".replace("-", "−")


def count(n: int, what: str) -> str:
    return f"{n:,} {what}" + "s" * (n != 1)


def listed(texts: list[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def shortened(text: str, longest: int) -> str:
    """Cut out of its middle: a column's name stands before its value, and both tell something.

    >>> shortened("marital-status=Never-married", 20)
    'marita…Never-married'
    """
    head = longest // 3
    return text if len(text) <= longest else text[:head] + "…" + text[len(text) - (longest - 1 - head) :]
