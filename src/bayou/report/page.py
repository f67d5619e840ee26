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
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from bayou import __version__
from bayou.core.errors import BadInput
from bayou.core.files import whole_file
from bayou.core.printable import printable, shorten
from bayou.core.spelling import option
from bayou.report import figures, sentences
from bayou.report.facts import DataFacts, ReportedRun, RunFacts

# A fast level: the file is 4% larger than at the slowest one.
COMPRESSION = 4


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
    facts = RunFacts(runs[0], data)
    drawn = figures.all_of(facts)
    if len(runs) > 1 and facts.result.examples:
        drawn.append(figures.compared(runs))
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
        title=title,
        style=safe(_own("page.css")),
        script=safe(script),
        policy=_policy(library, script),
        library=safe(packed),
        figures=safe(_json([figure.plain() for figure in drawn])),
        runs=runs,
        drawn=drawn,
        facts=facts,
        sentences=sentences,
        option=option,
        version=__version__,
        date=time.strftime("%-d %B %Y, %H:%M"),
    )


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
