"""Additions of the site to the pages: formulas as MathML, the command reference from the code, pages of the root.

Formulas stand in pages as $inline$ or, on lines of their own, between $$. Browsers show MathML themselves, so that a
page needs no script and no network.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_DISPLAY = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<![\\$\w])\$([^$\n]+)\$(?!\w)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Formulas become MathML; what is inside code stays."""
    parts = _CODE.split(markdown)
    parts[::2] = [_with_formulas(text) for text in parts[::2]]
    return "".join(parts)


def _with_formulas(text: str) -> str:
    # a wide formula scrolls by itself on a phone
    text = _DISPLAY.sub(lambda found: f"\n<div style='overflow-x: auto'>{_mathml(found[1], 'block')}</div>\n", text)
    # in a span: a line that begins with <math> would be a block of its own
    return _INLINE.sub(lambda found: f"<span>{_mathml(found[1], 'inline')}</span>", text)


def _mathml(latex: str, display: str) -> str:
    return convert(" ".join(latex.split()), display=display)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made, not written."""
    made = {
        "reference/commands.md": commands(),
        "changelog.md": _of_the_root("CHANGELOG.md"),
        "contributing.md": _of_the_root("CONTRIBUTING.md"),
        "security.md": _of_the_root("SECURITY.md"),
    }
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def _of_the_root(name: str) -> str:
    """Return a page that stands in the root of the repository, with its links as the site needs them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for page in ("CHANGELOG", "CONTRIBUTING", "SECURITY"):
        text = text.replace(f"]({page}.md", f"]({page.lower()}.md")
    return text.replace("](docs/", "](")


def commands() -> str:
    """The command reference, out of the commands themselves."""
    import typer

    from bayou.cli import app

    group: Any = typer.main.get_command(app)
    pages = [f"# Commands\n\n{group.help}\n"]
    for name, command in group.commands.items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        usage = " ".join(["bayou", name, *(_usage_of(argument) for argument in arguments)])
        context = command.make_context(name, [], resilient_parsing=True)
        rows = [((p.metavar or p.name).upper(), p.help) for p in arguments]
        rows += [p.get_help_record(context) for p in options]
        table = "\n".join(f"| `{left}` | {_cell(right)} |" for left, right in rows)
        pages.append(f"## bayou {name}\n\n{command.help}\n\n    {usage} [options]\n\n| | |\n|---|---|\n{table}\n")
    return "\n".join(pages)


def _usage_of(argument: Any) -> str:
    shown = (argument.metavar or argument.name).upper() + ("..." if argument.nargs == -1 else "")
    return shown if argument.required else f"[{shown}]"


def _cell(text: str | None) -> str:
    return _sentence(text).replace("|", "\\|")


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())
