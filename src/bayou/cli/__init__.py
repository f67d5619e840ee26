"""Entry point of the command `bayou`. `main` imports `commands` only once the import path is safe."""

from typing import Any

from bayou.core.children import protect_command


def main() -> None:
    """Run the command line of this process."""
    protect_command()
    from bayou.cli import app, commands

    commands.run(app)


def __getattr__(name: str) -> Any:
    if name == "app":
        from bayou.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
