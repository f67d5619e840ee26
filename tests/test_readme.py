"""What the README shows is run: its Python as it stands, its commands by .ci/run."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert blocks
    names = {"__name__": "readme"}
    for block in blocks:  # in order, as a reader would type them
        exec(compile(block, str(README), "exec"), names)
    low, high = names["low"], names["high"]
    assert ((0 <= low) & (low < high) & (high <= 1)).all()


def test_commands_have_their_markers():
    text = README.read_text(encoding="utf-8")
    for name in ("demo", "test"):
        assert re.search(rf"^<!-- {name} -->\n```sh\n\S.*\n```$", text, re.MULTILINE)


def test_local_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target
