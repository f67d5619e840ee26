"""`bayou simulate`: examples with known true weights, as svmlight text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage
from bayou.runs import settings

if TYPE_CHECKING:
    import numpy as np

    from bayou.simulate import Simulation

# The names in bayou.simulate.GENERATORS, which is too slow to import for showing help.
KINDS = ("random", "nonbinary", "categorical", "longtail", "groups")


def simulate(
    kind: Annotated[str, typer.Argument(help=f"Which stream: {', '.join(KINDS)}.")],
    *,
    out: str,
    examples: Annotated[int, typer.Option(min=0, max=10**12)] = 100_000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    truth: Path | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
) -> None:
    """Write examples drawn from known true weights, as svmlight text.

    The same kind, seed and settings always give the same examples. Groups of features are written count:spread, as in
    --set groups=100:0.5,100:2.

    Example:

        bayou simulate random --examples 10000 --out clicks.svm

    Args:
        out: Where to write: .svm, .svm.gz, .svm.zst, or - for standard output.
        examples: Number of examples.
        seed: Random seed of the stream.
        truth: Where to write the true weights: a .npz file.
        set_: Parameter of the stream, as in n_features=1000.
    """
    if kind not in KINDS:
        from bayou.core.checks import suggest

        near = suggest(kind, KINDS)
        raise BadUsage(f"there is no stream called {kind!r}; there are: {', '.join(KINDS)}.{near}")
    options.check_outputs({"--out": out, "--truth": truth})

    from bayou.outputs import text as write
    from bayou.simulate import GENERATORS

    with output.preparing():
        stream = GENERATORS[kind](seed=seed, **_settings(set_ or [], GENERATORS[kind]))
        for batch in stream.batches(1):  # load or compile the kernels
            write.svmlight(batch)
    started, size = time.perf_counter(), 0
    with (
        output.progress(examples, "examples", is_shown=out != write.STANDARD_OUTPUT) as show,
        write.output(out) as file,
    ):
        for done, text in _texts(stream, examples):
            file.write(text)
            size += len(text)
            show(done)
            if out == write.STANDARD_OUTPUT and output.had_enough():
                break
    if truth is not None:
        _write_truth(stream, truth)
    seconds = time.perf_counter() - started
    if not output.had_enough():
        throughput = f"{size / 1e6:,.1f} MB of text in {seconds:.1f} s"
        output.print_note(f"{examples:,} examples of {stream.n_features:,} features; {throughput}")


def _settings(texts: list[str], generator: Any) -> dict[str, Any]:
    parameters = settings.parse(texts, generator, taken=("seed",))
    if "groups" in parameters:
        pairs = parameters["groups"] if isinstance(parameters["groups"], list) else [parameters["groups"]]
        parameters["groups"] = [tuple(settings.value_of(end) for end in str(pair).split(":")) for pair in pairs]
    return parameters


def _texts(stream: Simulation, n_examples: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (examples so far, svmlight text of the latest) in order; batches are drawn and formatted on all cores."""
    from bayou.outputs.text import svmlight
    from bayou.simulate import BATCH_SIZE
    from bayou.sources import spare_cores
    from bayou.sources.reading.parallel_map import ParallelMap

    def text(start: int) -> tuple[int, np.ndarray]:
        size = min(BATCH_SIZE, n_examples - start)
        (batch,) = stream.batches(size, start=start)
        return start + size, svmlight(batch)

    batches = ParallelMap(range(0, n_examples, BATCH_SIZE), text, threads=spare_cores())
    try:
        yield from batches
    finally:
        batches.close()


def _write_truth(stream: Simulation, path: Path) -> None:
    import numpy as np

    from bayou.outputs.text import output as opened

    with opened(path) as file:
        np.savez(
            file,
            weights=stream.weights,
            prior_variance=stream.prior_variance,
            link=stream.link,
            name=stream.name,
            seed=stream.seed,
        )
