"""The command `bayou`. Whatever is heavy is imported inside the commands, so that help answers at once."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bayou import __version__
from bayou.cli import compare, features, info, merge, predict, reproduce, select, simulate, train
from bayou.cli.demo import command as demo_command
from bayou.cli.usage import BadUsage
from bayou.core.errors import BadInput, BadModel


class _Commands(TyperGroup):
    """The commands, and what their errors look like to a person: one sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (BadInput, BadModel) as error:
            typer.secho(str(error), fg=typer.colors.RED, err=True)
            raise typer.Exit(2 if isinstance(error, BadUsage) else 1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    # Plain help: typer's rich help loads a Markdown parser, which takes longer than all the rest together.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _command in (
    train.train,
    compare.compare,
    predict.predict,
    features.features,
    info.info,
    merge.merge,
    select.select,
    simulate.simulate,
    reproduce.reproduce,
    demo_command.demo,
):
    app.command()(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayou {__version__}")
        raise typer.Exit


@app.callback()
def _bayou(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn sparse linear models from streams: every weight is a distribution.

    Example:

        bayou train clicks.csv --label clicked --model m.bayou
    """


def main() -> None:
    app(prog_name="bayou")
