"""Exit codes of the command: however it ends, the caller gets an exit code and, if that is not 0, a sentence.

0         done, though progress on standard error may have been lost
1         bad data, a bad model, or a system that could not do what was asked of it (memory, disk, standard output)
2         the command was called in a way that cannot work
70        a defect of bayou
128 + n   ended by signal n: 129 a terminal that was closed, 130 Ctrl-C, 141 a reader of standard output that had
          seen enough, 143 SIGTERM. What was learned by then is kept
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import typer

from bayou.cli.terminal import output, streams
from bayou.cli.usage import BadUsage
from bayou.core.errors import BadInput, BadModel
from bayou.core.printable import printable
from bayou.core.spelling import as_flags

DONE, BAD_DATA, BAD_USAGE, INTERNAL_ERROR = 0, 1, 2, 70
INTERRUPTED, BROKEN_PIPE = 128 + signal.SIGINT, 141  # 128 + SIGPIPE, which not every system has
# Base class of the errors of the command line parser.
ParserError: Any = typer.BadParameter.__base__


def exit_code(command: Callable[[], Any], debug: Callable[[], bool] = lambda: False) -> int:
    """Run a command, print a sentence if it fails, and return the exit code."""
    try:
        with as_flags():
            code = int(command() or DONE)
        sys.stdout.flush()
    except ParserError as error:
        if error.ctx is None or error.message != error.ctx.get_help():
            error.message = printable(error.message)
        error.show()
        code = BAD_USAGE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = BROKEN_PIPE
    except Exception as error:
        code, sentence = _exit_code_and_message(error)
        if debug():
            for line in "".join(traceback.format_exception(error)).rstrip().split("\n"):
                output.print_note(line)
        output.print_note(sentence, error=True)
    return code or _shown()


def exit_process(code: int) -> NoReturn:
    """End the process. After a signal no thread is joined: one that was being started when Ctrl-C came would wait for
    work forever, and threads that still run must not see the interpreter being shut down.
    """
    if code > 128:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _exit_code_and_message(error: Exception) -> tuple[int, str]:
    """Return the exit code and the sentence for the error that ended a command."""
    if isinstance(error, BadInput | BadModel):
        return BAD_USAGE if isinstance(error, BadUsage) else BAD_DATA, str(error)
    message = str(error).strip().partition("\n")[0].rstrip(".")
    if isinstance(error, MemoryError):
        return BAD_DATA, f"there is not enough memory for this{f' ({message})' if message else ''}; use fewer --bits."
    if isinstance(error, OSError) and error.strerror:
        file = "" if error.filename is None else f"{error.filename}: "
        return (
            BAD_DATA,
            f"{file}the system refuses ({error.strerror}); `bayou --debug COMMAND` shows where.",
        )
    message = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return INTERNAL_ERROR, (
        f"Unexpected error ({message}). This is a bug in bayou, not in your data; please report it with the output of "
        "`bayou --debug COMMAND`."
    )


def _shown() -> int:
    """Return DONE if everything written to standard output has arrived, else the exit code of its failure."""
    error = streams.failure(sys.stdout)
    if error is None:
        return DONE
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    output.print_note(f"standard output could not be written ({error.strerror or error}).", error=True)
    return BAD_DATA
