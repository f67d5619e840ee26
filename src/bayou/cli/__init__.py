"""The command `bayou`: `main`. What it can do is in `commands`, which is imported when it is clear from where."""

from typing import Any

from bayou.core.children import protect_command


def main() -> None:
    """Run the command, as the arguments of this process say."""
    protect_command()
    from bayou.cli import app, commands

    commands.run(app)


def __getattr__(name: str) -> Any:
    if name == "app":
        from bayou.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
