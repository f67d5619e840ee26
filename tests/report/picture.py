"""Draws docs/images/report.png: a report on a desktop, light, and on a phone, dark.

PYTHONPATH=. BAYOU_DATA=… python tests/report/picture.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser import Browser

OUT = Path(__file__).parents[2] / "docs" / "images" / "report.png"
HEIGHT, PHONE, GAP = 1560, 390, 40


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Browser() as browser:
        folder = Path(name)
        data = Path(os.environ["BAYOU_DATA"]) / "adult.csv.gz"
        options = ["--label", "income", "--positive", ">50K", "--ignore", "split", "--quiet", "--report"]
        train = [sys.executable, "-m", "bayou", "train", str(data), *options, str(folder / "report.html")]
        subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
        pictures = []
        for width, dark in ((1120, False), (PHONE, True)):
            page = browser.open(folder / "report.html", width=width, height=HEIGHT, dark=dark, phone=dark)
            page.wait("document.documentElement.dataset.drawn !== undefined")
            page.value("document.head.insertAdjacentHTML('beforeend', '<style>.modebar{display:none}</style>')")
            if dark:
                page.value("document.querySelector('#loss').closest('section').scrollIntoView()")
            page.picture(folder / f"{width}.png", whole=False)
            picture = Image.open(folder / f"{width}.png").convert("RGB")
            pictures.append(picture.resize((width, HEIGHT), Image.Resampling.LANCZOS))
        whole = Image.new("RGB", (sum(p.width for p in pictures) + GAP, HEIGHT), "white")
        whole.paste(pictures[0], (0, 0))
        whole.paste(pictures[1], (pictures[0].width + GAP, 0))
        whole.quantize(128, dither=Image.Dither.NONE).save(OUT, optimize=True)


if __name__ == "__main__":
    main()
