"""Error for commands that were called in a way that cannot work: exit code 2, as for all wrong usage."""

from collections.abc import Iterator
from contextlib import contextmanager

from bayou.core.errors import BadInput


class BadUsage(BadInput):
    """The command was called in a way that cannot work."""


@contextmanager
def usage() -> Iterator[None]:
    """Turn BadInput into BadUsage: before any example is read, an error is due to how the command was called."""
    try:
        yield
    except BadInput as error:
        raise BadUsage(str(error)) from None


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Raise an error that names the extra to install if an import inside fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise BadUsage(
            f"{error.name} is not installed; run `pip install '.[{name}]'` in a checkout of bayou."
        ) from None
