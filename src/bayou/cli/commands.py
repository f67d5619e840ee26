"""Commands of `bayou`. Heavy modules are imported inside the commands, so that help appears at once."""

import os
import sys
from functools import partial
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from bayou import __version__
from bayou.cli import exit_codes, options, vw_flags
from bayou.cli.demo.command import demo
from bayou.cli.interrupts import InterruptHandler
from bayou.cli.terminal import output, streams

# Commands in the order of the help; each is the function of this name in the module of this name.
NAMES = (
    "train", "look", "compare", "predict", "features", "info", "merge", "select", "simulate", "reproduce", "serve",
    "replay", "warm",
)  # fmt: skip


class _Commands(TyperGroup):
    """The commands; how they end is said at the edge."""

    debug = False

    def main(self, args: Any = None, prog_name: str | None = None, *arguments: Any, **options: Any) -> Any:
        self.debug, alone = False, options.pop("standalone_mode", True)
        command = partial(super().main, args, prog_name, *arguments, **options | {"standalone_mode": False})
        code = exit_codes.exit_code(command, lambda: self.debug)
        if alone:
            sys.exit(code)
        return code


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    # Plain help: typer's rich help loads a Markdown parser, which takes longer than all the rest together.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _name in NAMES:
    app.command(cls=vw_flags.KINDS.get(_name))(options.command(getattr(import_module(f"bayou.cli.{_name}"), _name)))
app.command()(options.command(demo))


def _print_version(requested: bool) -> None:
    if requested:
        output.print_result(f"bayou {__version__}")
        raise typer.Exit


@app.callback()
def _bayou(
    ctx: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="BAYOU_DEBUG", help="Also show where in bayou an error occurred.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn sparse linear models from streams: every weight is a distribution.

    Example:

        bayou train clicks.csv --label clicked --model m.bayou
    """
    cast(_Commands, ctx.command).debug = debug


def run(app: Any) -> None:
    """Run the command line of this process, then end the process."""
    # No command needs BLAS threads, and starting them takes a tenth of a second. Must be set before NumPy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    streams.install()
    InterruptHandler().install()
    exit_codes.exit_process(app(prog_name="bayou", standalone_mode=False))
