"""Page of the report: one self-contained HTML file with template, style, script, figures and the plotting library.

The page's content security policy forbids it to load anything and to run any script but its own two, which are listed
by their digests, so a feature's name can never be executed. The library is compressed from 5 MB to 2 MB; browsers have
been able to decompress it since 2023.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from bayou import __version__
from bayou.core.errors import BadInput
from bayou.core.files import whole_file
from bayou.core.printable import printable, shorten
from bayou.core.spelling import option
from bayou.report import figures, sentences
from bayou.report.facts import DRAWN, UNNAMED, DataFacts, ReportedRun, RunFacts
from bayou.report.recorder import Sample

# A fast level: the file is 4% larger than at the slowest one.
COMPRESSION = 4
# Number of columns listed for a wide table.
MAX_LISTED_COLUMNS = 500
# Numbers of features named for a row and for a class, and of classes listed.
ROW_FEATURES, OF_EACH, CLASSES_LISTED = 3, 6, 50


# Figures of prediction quality.
GOOD = (
    *("loss", "predicted", "residuals", "coverage", "reliability", "scores"),
    *("confusion", "class-reliability"),
)


def write(
    path: str | os.PathLike[str],
    run: ReportedRun | Sequence[ReportedRun],
    data: DataFacts | None = None,
    title: str | None = None,
) -> None:
    """Write the report of a run, or of several over the same data. The file is written completely or not at all.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayou import evaluate, simulate
    >>> from bayou.learners import Marginal
    >>> from bayou.report import Recorder, ReportedRun
    >>> recorder = Recorder(Marginal(n_features=50))
    >>> batches = recorder.split_at_recordings(simulate.random(n_features=50).batches(500))
    >>> result = evaluate.progressive(recorder, batches)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/report.html", ReportedRun(recorder, result))
    ...     Path(f"{folder}/report.html").read_text()[:15]
    '<!doctype html>'
    """
    text = render(run, data, title)
    try:
        with whole_file(path, flush=False) as file:
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"the report could not be written to {path} ({error.strerror or error}).") from None


def render(run: ReportedRun | Sequence[ReportedRun], data: DataFacts | None = None, title: str | None = None) -> str:
    """Return the page as text. Given several runs, it compares their losses and shows the best in full."""
    import jinja2

    runs = (
        [run]
        if isinstance(run, ReportedRun)
        else sorted(run, key=lambda run: math.inf if run.loss is None else run.loss)
    )
    facts = RunFacts(runs[0], data or DataFacts())
    drawn = figures.all_of(facts)
    summary = sentences.summary(facts)
    if len(runs) > 1 and facts.result.examples:
        drawn.append(figures.compared(runs))
        summary.insert(0, ("Compared", sentences.comparison(runs)))
    (library, packed), script = _library(), _own("page.js")
    loader = jinja2.FunctionLoader(_own)
    # Text that may come from a user passes through here and is escaped.
    safe = jinja2.utils.markupsafe.Markup
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shorten"] = shorten
    return environment.get_template("page.html").render(
        title=title or _title(facts),
        subtitle=_subtitle(facts, len(runs)),
        style=safe(_own("page.css")),
        script=safe(script),
        policy=_policy(library, script),
        library=safe(packed),
        figures=safe(_json([figure.plain() for figure in drawn])),
        cards=_cards(facts),
        summary=summary,
        compared=[f for f in drawn if f.key == "compared"],
        scores=_scores(runs) if len(runs) > 1 else [],
        good=[f for f in drawn if f.key in GOOD],
        classes=_classes(facts),
        sure=[f for f in drawn if f.key in ("deviations", "split", "dots")],
        known=[f for f in drawn if f.key in ("columns", "features", "pairs", "inclusion")],
        inside=[f for f in drawn if f.key == "lanes"],
        unsure=_rows(facts, facts.most_uncertain) if facts.has_posterior and facts.result.examples else [],
        surprising=_rows(facts, facts.largest_losses) if facts.result.examples else [],
        columns=_columns(facts),
        features=_features(facts),
        parts=_parts(facts),
        data=_data(facts),
        decided=_decided(facts),
        bad=list(facts.data.bad_lines),
        has_posterior=facts.has_posterior,
        version=__version__,
        date=time.strftime("%-d %B %Y, %H:%M"),
    )


def _title(facts: RunFacts) -> str:
    files = facts.data.files
    if not files:
        return f"What the {facts.learner.name} learned"
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _subtitle(facts: RunFacts, learners: int) -> str:
    best = f"The best of {learners} learners, " if learners > 1 else ""
    return f"{best}{facts.run.name}: {facts.learner.record.summary}"


def _own(name: str) -> str:
    """Return the text of a file of this package."""
    return (resources.files("bayou.report") / name).read_text(encoding="utf-8")


@cache
def _library() -> tuple[str, str]:
    """Return the plotting library, plain and compressed."""
    from plotly.offline import get_plotlyjs

    text = get_plotlyjs()
    return text, base64.b64encode(gzip.compress(text.encode(), COMPRESSION, mtime=0)).decode()


def _policy(*scripts: str) -> str:
    """Return a content security policy that allows only these scripts, and images of plots for the user to save."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _json(plain: Any) -> str:
    """Return JSON that cannot close the HTML element that contains it."""
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- numbers and tables -----------------------------------------------------------------------------------------------


# (measure, name, format, meaning)
Cards = tuple[tuple[str, str, Callable[[float], str], str], ...]
BINARY_CARDS: Cards = (
    ("auc", "AUC", "{:.4f}".format, "0.5 is guessing, 1 is perfect"),
    ("accuracy", "accuracy", sentences.percent, "on the right side of 50%"),
    ("calibration_error", "calibration error", "{:.4f}".format, "predicted against actual rates"),
)
MULTICLASS_CARDS: Cards = (
    ("accuracy", "accuracy", sentences.percent, "the most probable class is right"),
    ("auc", "mean AUC", "{:.4f}".format, "each class against the rest"),
    ("calibration_error", "calibration error", "{:.4f}".format, "of the most probable class"),
)
REGRESSION_CARDS: Cards = (
    ("r2", "R²", "{:.4f}".format, "against always the mean so far"),
    ("mean_absolute_error", "mean absolute error", "{:.4g}".format, "how far off on average"),
    ("coverage", "in 90% intervals", sentences.percent, "90% is right"),
)


def _cards(facts: RunFacts) -> list[tuple[str, str, str]]:
    """Return the key figures as (name, number, meaning)."""
    result = facts.result
    cards = [("examples", f"{result.examples:,}", "predicted, then learned from")]
    loss, held_out = facts.run.loss, facts.run.loss_of(facts.run.held_out)
    name = facts.run.loss_name.replace("_", " ")
    if loss is not None:
        base = f"{sentences.number(facts.base_loss)} without features" if facts.base_loss else "surprise per example"
        cards.append((name, f"{loss:.4g}" if facts.is_regression else f"{loss:.4f}", base))
    if held_out is not None:
        cards.append(
            (f"held-out {name}", f"{held_out:.4g}", f"on {sentences.count(facts.run.held_out.examples, 'example')}")
        )
    frozen = facts.learner.later_loss()
    if frozen is not None and frozen.differs:
        cards.append(
            (f"{frozen.measure}, later rows", f"{frozen.expected:.4f}", f"expected; {frozen.learned:.4f} as it learned")
        )
    for measure, name, format_score, meaning in _measures(facts):
        value = getattr(result, measure)
        if value is not None:
            cards.append((name, format_score(value), meaning))
    seconds = facts.run.seconds
    if seconds:
        cards.append(("time", f"{seconds:.3g} s", f"{result.examples / seconds:,.0f} examples per second"))
    return cards


def _measures(facts: RunFacts) -> Cards:
    return REGRESSION_CARDS if facts.is_regression else MULTICLASS_CARDS if facts.is_multiclass else BINARY_CARDS


def _scores(runs: Sequence[ReportedRun]) -> list[list[str]]:
    """Return a table that compares several runs: the header, then one row per run."""
    headline = [run.result.headline() for run in runs]
    rows = [["learner", *headline[0], "seconds"]]
    for run, scores in zip(runs, headline, strict=True):
        cells = ("–" if value is None else f"{value:.5f}" for value in scores.values())
        rows.append([run.name, *cells, "–" if run.seconds is None else f"{run.seconds:.2f}"])
    return rows


def _rows(facts: RunFacts, sample: Sample) -> list[dict[str, str]]:
    """Return a table row for each prediction of a sample."""
    posterior, terms = facts.has_posterior, facts.top_contributions(sample)
    low, high = facts.interval(sample) if posterior else (sample.expected, sample.expected)
    return [
        {
            "place": sentences.row_name(sample.line[k], sample.row[k]),
            "tag": sentences.shortened(sample.tags[k], 60),
            "expected": sentences.format_prediction(facts, sample, k),
            "interval": f"{sentences.format_value(facts, low[k])} to {sentences.format_value(facts, high[k])}"
            if posterior
            else "",
            "label": sentences.label(facts, sample, k),
            "moved": "; ".join(f"{sentences.shortened(name, 40)} {sentences.signed(by)}" for name, by in terms[k]),
            "features": "; ".join(
                sentences.shortened(name, 40) for name in facts.uncertain_features(sample.features[k], ROW_FEATURES)
            ),
        }
        for k in range(len(sample))
    ]


def _columns(facts: RunFacts) -> list[dict[str, str]]:
    """Return a table row for each of the columns that vary the score most; for multiclass, per class."""
    return [
        {
            "class": name,
            "name": column.name,
            "spread": f"{column.spread:.4f}",
            "values": f"{column.features:,}",
            "telling": "; ".join(sentences.feature_values(strengths, column.top_features)),
        }
        for name, strengths in facts.class_strengths
        for column in facts.columns_of(strengths)[: OF_EACH if facts.is_multiclass else None]
    ]


def _features(facts: RunFacts) -> list[dict[str, str]]:
    """Return a table row for each of the features that vary the score most; for multiclass, per class."""
    return [
        {
            "class": name,
            "name": strengths.name(k, UNNAMED),
            "mean": f"{strengths.mean[k]:+.4f}",
            "sd": "" if strengths.sd is None else f"{strengths.sd[k]:.4f}",
            "inclusion": "" if strengths.inclusion is None else sentences.percent(strengths.inclusion[k]),
            "seen": sentences.percent(strengths.seen[k]),
            "share": sentences.percent(strengths.share[k]),
        }
        for name, strengths in facts.class_strengths
        for k in strengths.top(OF_EACH if facts.is_multiclass else DRAWN, "share").tolist()
    ]


def _classes(facts: RunFacts) -> list[dict[str, str]]:
    """Return a table row for each of the commonest classes; empty unless multiclass."""
    if not facts.is_multiclass:
        return []
    table, total = facts.result.classes, facts.result.curve["weight"][-1:].sum()
    names = facts.class_names(table["label"])
    return [
        {
            "name": names[k],
            "share": sentences.percent(table["mass"][k] / total) if total else "–",
            **{
                name: "–" if np.isnan(table[name][k]) else format_score(table[name][k])
                for name, format_score in (
                    ("auc", "{:.4f}".format),
                    ("precision", sentences.percent),
                    ("recall", sentences.percent),
                )
            },
        }
        for k in range(min(len(names), CLASSES_LISTED))
    ]


def _parts(facts: RunFacts) -> list[dict[str, str]]:
    return [
        {"name": lane["name"], "weight": sentences.percent(lane["weight"]), "loss": sentences.number(lane.get("loss"))}
        for lane in sorted(facts.parts, key=lambda lane: -lane["weight"])
    ]


def _decided(facts: RunFacts) -> list[dict[str, str]]:
    """Return the role, derived features and warnings of each column of the data."""
    columns = () if facts.data.recipe is None else facts.data.recipe.columns or ()
    return [
        {
            "name": column.name,
            "role": column.role,
            "gives": column.gives,
            "missing": sentences.percent(column.missing) if column.missing else "",
            "why": "; ".join(filter(None, [column.why, column.remark])),
            "examples": sentences.shortened(", ".join(column.examples), 80),
        }
        for column in columns[:MAX_LISTED_COLUMNS]
    ]


def _data(facts: RunFacts) -> list[tuple[str, str]]:
    """Return facts about the data as (name, value)."""
    data, recorder, result = facts.data, facts.run.recorder, facts.result
    varied = result.examples and recorder.shortest != recorder.longest
    span = f" on average, {recorder.shortest:,} to {recorder.longest:,}" if varied else ""
    length = f"{result.nonzeros / result.examples:.4g}{span}" if result.examples else ""
    rate_kept = f"{data.negative_rate:g} of them; numbers here are those of the data as given"
    in_use = f"{facts.learner.n_features:,}, of which {sentences.percent(facts.table_load)} are in use"
    shared = f"{sentences.percent(facts.collisions)} of the features share a weight with another"
    wrapped = f"{data.n_wrapped:,} were wrapped around; use a larger {option('bits')}"
    named = [
        ("files", ", ".join(data.files)),
        ("lines read", "" if data.lines is None else f"{data.lines:,}"),
        ("examples", f"{result.examples:,}"),
        ("skipped lines", f"{data.skipped:,}"),
        ("positives", "" if facts.rate is None else sentences.percent(facts.rate)),
        ("negatives kept", "" if data.negative_rate == 1.0 else rate_kept),
        ("features per example", length),
        ("classes", f"{len(result.classes['label']):,}" if facts.is_multiclass else ""),
        ("different features", f"{len(facts.touched):,}"),
        ("table of weights", in_use),
        ("hash collisions", shared if data.hashed else ""),
        ("features with a name", "" if data.names is None else f"{len(data.names):,}"),
        ("numbers too large for the table", wrapped if data.n_wrapped else ""),
    ]
    return [(name, value) for name, value in named if value]
