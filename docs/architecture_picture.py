"""Draw docs/images/architecture.svg: the layers of the code, and the life of a row.

    python docs/architecture_picture.py

LAYERS follows the import contract in pyproject.toml; tests/test_project.py compares the two.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent / "images" / "architecture.svg"

# From top to bottom: the packages of a layer, what they do, and the color of their kind.
LAYERS = [
    (["cli"], "the command: options, tables, exit codes", "face"),
    (["reproduce"], "the papers' tables and figures", "result"),
    (["serve", "spark", "estimators", "river"], "the other faces", "face"),
    (["runs"], "train, predict, look, compare, ...", "run"),
    (["report"], "the HTML report of a run", "result"),
    (["rounds"], "learning in shards", "run"),
    (["plots"], "the style of all plots", "result"),
    (["evaluate", "outputs"], "scores, tables, files", "result"),
    (["simulate", "sources"], "data as batches", "data"),
    (["learners"], "one algorithm per file or folder", "learner"),
    (["registry"], "learners by name", "learner"),
    (["recipe"], "how a raw row becomes an example", "data"),
    (["core"], "batch, learner, prediction, model file", "core"),
    (["kernels"], "compiling, caching, vectors, text", "kernel"),
]

# The life of a row in `bayou train clicks.csv`: where, what happens, and the color of the layer that does it. The list
# in architecture.md has the same steps.
STEPS = [
    ("cli/train.py", "options become a source and a learner", "face"),
    ("sources/reading/blocks.py", "bytes become blocks of whole rows", "data"),
    ("sources/reading/parallel_map.py", "other threads parse blocks", "data"),
    ("sources/formats", "a block becomes cells; bad lines are counted", "data"),
    ("sources/table", "the recipe turns cells into features", "data"),
    ("sources/source.py", "names, labels and a batch, in order", "data"),
    ("runs/batching.py", "batches end where the rows alone decide", "run"),
    ("evaluate/progressive.py", "predict, then learn", "result"),
    ("learners/bank", "lanes update their weights in kernels", "learner"),
    ("evaluate", "predictions are scored, features counted", "result"),
    ("runs/train.py", "recipe, names and counters join the model", "run"),
    ("core/model_file.py", "weights and recipe become one file", "core"),
]

# For each kind, the fill in the light and in the dark scheme.
COLORS = {
    "face": ("#d6e4f7", "#27436b"),
    "run": ("#e5dbf5", "#47346f"),
    "result": ("#fbe3cf", "#6d4420"),
    "data": ("#d9efd5", "#2c5a2b"),
    "learner": ("#cfeeea", "#1d5953"),
    "core": ("#e8e8e4", "#4a4a4e"),
    "kernel": ("#d3d3cf", "#5c5c61"),
}

WIDTH, MARGIN, TOP = 900, 20, 84
BAND, GAP = 46, 8
LEFT, RIGHT = 440, 380  # widths of the two columns
HEIGHT = TOP + len(LAYERS) * (BAND + GAP) + 12


def style() -> str:
    light = "".join(f".{kind}{{fill:{fill}}}" for kind, (fill, _) in COLORS.items())
    dark = "".join(f".{kind}{{fill:{fill}}}" for kind, (_, fill) in COLORS.items())
    return (
        "text{font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#1c1c1e}"
        ".page{fill:#fdfdfb;stroke:#d0d0cc}.name{font-size:16px;font-weight:600}.text{font-size:14px}"
        ".title{font-size:19px;font-weight:600}.note{font-size:14px;fill:#55555a}"
        f".line{{stroke:#6a6a70;stroke-width:2;fill:none}}.tip{{fill:#6a6a70}}{light}"
        "@media (prefers-color-scheme:dark){text{fill:#f1f1f3}.page{fill:#1f2026;stroke:#3c3d45}"
        f".note{{fill:#b6b6bd}}.line{{stroke:#a0a0a8}}.tip{{fill:#a0a0a8}}{dark}}}"
    )


def text(x: float, y: float, kind: str, words: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def layers() -> list[str]:
    parts = [
        text(MARGIN + 8, 42, "title", "Layers"),
        text(MARGIN + 8, 64, "note", "a layer imports only from the layers below it"),
    ]
    for k, (names, does, kind) in enumerate(LAYERS):
        y = TOP + k * (BAND + GAP)
        middle = y + BAND / 2 + 5
        parts.append(f'<rect x="{MARGIN}" y="{y}" width="{LEFT}" height="{BAND}" rx="6" class="{kind}"/>')
        parts.append(text(MARGIN + 12, middle, "name", ", ".join(names)))
        parts.append(text(MARGIN + LEFT - 12, middle, "text", does, "end"))
    return parts


def life() -> list[str]:
    x = WIDTH - MARGIN - RIGHT
    pitch = (len(LAYERS) * (BAND + GAP) - GAP) / len(STEPS)
    height = pitch - 16
    parts = [
        text(x + 8, 42, "title", "Life of a row"),
        text(x + 8, 64, "note", "bayou train clicks.csv --model m.bayou"),
    ]
    for k, (where, happens, kind) in enumerate(STEPS):
        y = TOP + k * pitch
        parts.append(f'<rect x="{x}" y="{y:.1f}" width="{RIGHT}" height="{height:.1f}" rx="6" class="{kind}"/>')
        parts.append(text(x + 12, round(y + 20, 1), "name", f"{k + 1}  {where}"))
        parts.append(text(x + 12, round(y + 40, 1), "text", happens))
        if k + 1 < len(STEPS):
            middle, end = x + RIGHT / 2, y + pitch
            parts.append(f'<path d="M{middle} {y + height:.1f}V{end - 8:.1f}" class="line"/>')
            parts.append(f'<path d="M{middle - 5} {end - 9:.1f}h10l-5 8z" class="tip"/>')
    return parts


def picture() -> str:
    page = f'<rect x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="10" class="page"/>'
    label = "Left: the layers of the code from top to bottom. Right: the twelve steps of a row from file to model."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
            f"<style>{style()}</style>",
            page,
            *layers(),
            *life(),
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
