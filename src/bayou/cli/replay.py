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
    """Make the model of a server again, from its log alone.

    All that was learned is learned once more, from the beginning. The file is that which the server would write,
    byte for byte, by the same version on the same kind of processor; otherwise it is said that the last places of
    numbers may differ. The server may run meanwhile; what is logged later is left out.

    Example:

        bayou replay ./state --out m.bayou

    Args:
        state: The folder that `bayou serve --data` had.
        out: Where to write the model.
        name: Which model, where the folder has several.
    """
    options.check_outputs({"--out": out})
    with output.preparing(), extra("serve"):
        from bayou.serve.state_folder import replayed
    with output.progress(None, "entries") as show:
        model = replayed(state, name, lambda done, last: show(done), output.print_note)
    model.copy().save(out)
    output.print_note(f"{model.version:,} entries of the log, {model.learner.examples:,} examples in all")
    output.print_note(f"the model is in {out}")
