"""`bayou replay`: the model of a server again, from its log alone."""

from __future__ import annotations

from pathlib import Path

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import extra


def replay(
    state: Path,
    *,
    out: Path,
    name: str | None = None,
) -> None:
    """Rebuild the model of a server using only its log.

    Everything is learned once more, from the beginning. With the same version on the same kind of processor, the file
    is byte for byte what the server would write; otherwise a message says that the last places of numbers may differ.
    The server may run meanwhile; what it logs later is not included.

    Example:

        bayou replay ./state --out m.bayou

    Args:
        state: The folder given to `bayou serve --data`.
        out: Where to write the model.
        name: Which model, if the folder has several.
    """
    options.check_outputs({"--out": out})
    with output.preparing(), extra("serve"):
        from bayou.serve.state_folder import replayed
    with output.progress(None, "entries") as show:
        model = replayed(state, name, lambda done, last: show(done), output.print_note)
    model.copy().save(out)
    output.print_note(f"{model.version:,} entries of the log, {model.learner.examples:,} examples in all")
    output.print_note(f"the model is in {out}")
