"""`bayou serve`: the command. bayou.serve does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage, extra
from bayou.core.errors import BadInput, BadModel

# As in bayou.serve.server and bayou.serve.messages, which are too heavy to import for showing help.
HOST, PORT = "127.0.0.1", 8642
LOG_FORMATS = "text", "json"


# As in bayou.serve.service.ServeOptions.
_LIMITS = [
    options.parameter(name, Annotated[int, typer.Option(min=1)], default)
    for name, default in {
        "open_rows": 10_000_000, "snapshot_every": 100_000, "max_body": 32 << 20, "max_rows": 100_000,
        "max_waiting": 4096, "max_unfinished": 256 << 20,
    }.items()
]  # fmt: skip


def serve(
    *,
    data: Path,
    model: list[str] | None = None,
    learner: str | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    bits: Annotated[int | None, options.of_recipe("bits")] = None,
    label: str | None = None,
    weight: str | None = None,
    host: str = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535)] = PORT,
    tokens: Path | None = None,
    read_only: Annotated[bool, typer.Option("--read-only")] = False,
    wait: str = "7d",
    default_label: str | None = None,
    limits: Annotated[options.Group, _LIMITS],
    log_format: str = "text",
) -> None:
    """Serve models that learn from what they are sent, over HTTP.

    Rows are predicted, rows with labels learned, and labels may come later. What was acknowledged is on disk, whatever
    happens. The live page is at the address that is shown.

    Example:

        bayou serve --model m.bayou --data ./state

        bayou serve --learner bank --data ./state

    Args:
        data: The folder for the log and the snapshots; made if it is not there.
        model: The model to go on with: FILE, or NAME=FILE again and again.
        learner: Begin with nothing, by this learner, and take any JSON row.
        set_: A parameter of --learner: name=value.
        label: With --learner: the name of the label in rows.
        weight: With --learner: the name of the weight in rows.
        host: The address to listen at; others than this machine need --tokens.
        port: 0: any that is free.
        tokens: A file of lines `read TOKEN` and `write TOKEN`: who may do what.
        read_only: Follow the snapshots of another server.
        wait: How long rows wait for their labels: 90s, 30min, 12h, 7d.
        default_label: The label of rows whose own did not come; if not given, they are not learned.
        open_rows: Rows that wait for labels, at most.
        snapshot_every: Examples between two snapshots, at least.
        max_body: Bytes of a request, at most.
        max_rows: Rows of a request, at most.
        max_waiting: Requests that wait, at most.
        max_unfinished: Bytes of all requests together that are not answered yet, at most.
        log_format: How messages are written to standard error: text, or json, an object per line.
    """
    if learner is not None and model:
        raise BadUsage("--learner begins with nothing and --model goes on with a model; give one of them.")
    if learner is None and (set_ or bits is not None or label is not None or weight is not None):
        raise BadUsage("--set, --bits, --label and --weight are for --learner; a model has its own.")
    if read_only and (model or learner):
        raise BadUsage("--read-only follows what is in --data; leave --model and --learner out.")
    if log_format not in LOG_FORMATS:
        raise BadUsage(f"--log-format is {log_format}; expected {' or '.join(LOG_FORMATS)}.")
    unfinished, body = limits["max_unfinished"], limits["max_body"]
    if unfinished < body:
        raise BadUsage(f"--max-unfinished is {unfinished:,}; a single request may have {body:,} (--max-body).")
    seconds = _seconds(wait)
    with output.preparing(), extra("serve"):
        from bayou.serve import server as serving
        from bayou.serve.service import ServeOptions, new_learner, state_path
        from bayou.serve.tokens import Tokens

        recipe = {name: value for name, value in {"label": label, "weight": weight}.items() if value is not None}
        models: dict[str, Any] = serving.models_of(model or [])
        if learner is not None:
            models[serving.DEFAULT] = lambda: new_learner(learner, set_ or [], bits or 22, recipe)
        server = serving.Server(
            state_path(str(data)),
            models,
            ServeOptions(
                wait=seconds,
                default=None if default_label is None else _value(default_label),
                read_only=read_only,
                **limits,
            ),
            None if tokens is None else Tokens.of(tokens),
            host,
            port,
            output.print_note,
            log_format,
        )
    try:
        with server.messages.uncaught():
            server.run()
    except (BadInput, BadModel) as error:
        if log_format == "text":
            raise
        server.messages.say(str(error), level="error")
        raise typer.Exit(1) from None


def _seconds(text: str) -> float:
    from bayou.core.durations import EXAMPLES, seconds_of

    seconds = seconds_of(text)
    if seconds is None or seconds >= 1e9:
        raise BadUsage(f"--wait is {text}; expected a time such as {EXAMPLES}.")
    return seconds


def _value(text: str) -> Any:
    """Parse a number or a boolean; return any other text as it is."""
    import json

    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text
