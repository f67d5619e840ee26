"""What the sweeps share: how much was tried, what was found, and how long to go on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Counts:
    """What one sweep has tried, by kind, and everything that should not have happened, each as a sentence.

    >>> counts = Counts()
    >>> counts.add("lines", 3)
    >>> counts.check(1 + 1 == 3, "1 + 1 is not 3")
    >>> counts.tried["lines"], counts.findings
    (3, ['1 + 1 is not 3'])
    """

    tried: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, what: str, how_many: int = 1) -> None:
        self.tried[what] += how_many

    def check(self, fine: bool, sentence: str) -> None:
        if not fine:
            self.findings.append(sentence)


def rounds(seconds: float) -> Iterator[int]:
    """0, 1, 2, ... until the time is up; always 0. What a round does depends on its number and the seed alone."""
    end = time.monotonic() + seconds
    number = 0
    yield number
    while time.monotonic() < end:
        number += 1
        yield number
