"""`bayou warm`: compile the kernels ahead of time."""

from typing import Annotated

import typer

from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage


def warm(
    *,
    all: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Compile the kernels ahead of time, on all cores.

    Without it, the first run compiles what it needs. Useful in containers and CI, where the first run should be quick.

    Example:

        bayou warm --all

    Args:
        all: Compile for every learner, not only the default one.
    """
    from bayou.kernels import cache
    from bayou.runs import warmup

    tasks = warmup.all_tasks() if all else warmup.default_tasks()
    folder = cache.writable()
    if folder is None:
        raise BadUsage(f"{cache.notice_no_cache()}.")
    cold = [task for task in tasks if not warmup.is_warm(task)]
    if cold:
        output.print_note(f"compiling the kernels for {len(cold)} of {len(tasks)} tasks: {', '.join(cold)}")
    with output.progress(len(cold), f"of {len(cold)} done") as show:
        warmup.run_all(cold, show)
    output.print_note(f"ready: compiled kernels are in {folder}")
