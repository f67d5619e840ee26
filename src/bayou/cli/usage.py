"""The error of commands that cannot work as they were called: exit code 2, as for all wrong usage."""

from collections.abc import Iterator
from contextlib import contextmanager

from bayou.core.errors import BadInput


class BadUsage(BadInput):
    """The command was called in a way that cannot work."""


@contextmanager
def usage() -> Iterator[None]:
    """What is refused in here, before any example is looked at, is refused because of how the command was called."""
    try:
        yield
    except BadInput as error:
        raise BadUsage(str(error)) from None


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say which extra has the package that an import misses."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise BadUsage(
            f"{error.name} is not installed; run `pip install '.[{name}]'` in a checkout of bayou."
        ) from None
