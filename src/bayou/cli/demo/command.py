"""`bayou demo`: the command. study has its numbers, narration its tables, plot its picture."""

from pathlib import Path
from typing import Annotated

import typer

from bayou.cli import options
from bayou.cli.terminal import output

PICTURES = (".png", ".svg", ".pdf")


def demo(
    *,
    examples: Annotated[int, typer.Option(min=1000)] = 300_000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Path = Path("bayou-demo.png"),
) -> None:
    """Train on simulated clicks; save a plot and a report.

    Shows what the model knows. Requires nothing beyond the installation. The first run takes longer because it compiles
    the learners' kernels.

    Example:

        bayou demo --out demo.png

    Args:
        examples: Number of examples to simulate.
        seed: Random seed of the stream.
        out: Output file of the plot: .png, .svg or .pdf.
    """
    options.check_ending("--out", out, PICTURES)
    report = out.with_suffix(".html")
    options.check_outputs({"--out": out, "the report beside it": report})

    from rich.console import Console

    progress = Console(stderr=True, highlight=False)
    next_step = f"next, three learners predict and learn {examples:,} simulated ad views"
    with progress.status(f"loading; the first time kernels are compiled, for ten seconds or so; {next_step}"):
        from bayou.cli.demo import narration, plot, study
        from bayou.kernels.numba_private import without_blas
        from bayou.runs import warmup

        # The last for what people try next.
        tasks = [*map(warmup.learner, ("bank", "marginal", "adagrad")), "read csv"]
        with without_blas(), warmup.ahead(*tasks):
            study.warm_up()
    result = study.run(examples, seed, progress)
    narration.show(result, Console(highlight=False))
    with progress.status("drawing"):
        plot.draw(result, out)
    with progress.status("writing the report"):
        study.write_report(result, report)
    output.print_result("")
    output.print_result(f"The picture is in {out}, and a report to open in a browser in {report}.")
