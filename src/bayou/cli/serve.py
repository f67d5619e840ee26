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
    """Serve models over HTTP and train them on incoming rows.

    The server predicts the rows it receives and learns from those with labels; labels may also arrive later. Everything
    it has acknowledged is on disk. The address it prints leads to the live page.

    Example:

        bayou serve --model m.bayou --data ./state

        bayou serve --learner bank --data ./state

    Args:
        data: Folder for the log and the snapshots; created if it does not exist.
        model: Model to start from: FILE, or NAME=FILE; may be repeated.
        learner: Start an untrained model with this learner; it accepts any JSON row.
        set_: Parameter of --learner, as name=value.
        label: With --learner: name of the label in rows.
        weight: With --learner: name of the weight in rows.
        host: Address to listen on; an address that other machines can reach requires --tokens.
        port: Port to listen on; 0 picks a free one.
        tokens: File with lines `read TOKEN` or `write TOKEN`, which grant access.
        read_only: Follow the snapshots of another server.
        wait: How long rows wait for their labels: 90s, 30min, 12h, 7d.
        default_label: Label for rows whose label never arrives; without it, such rows are not learned.
        open_rows: Maximum number of rows that wait for labels.
        snapshot_every: Minimum number of examples between snapshots.
        max_body: Maximum size of a request, in bytes.
        max_rows: Maximum number of rows in a request.
        max_waiting: Maximum number of queued requests.
        max_unfinished: Maximum total size of unanswered requests, in bytes.
        log_format: Format of messages on standard error: text, or json (one object per line).
    """
    if learner is not None and model:
        raise BadUsage("--learner starts an untrained model and --model continues a trained one; give one of them.")
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
