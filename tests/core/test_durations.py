"""Times with units."""

import pytest

from bayou.core.durations import seconds_of
from bayou.core.errors import BadInput
from bayou.runs.options import checkpoint_every


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5.0), ("90s", 90.0), ("10min", 600.0), ("10 m", 600.0), ("2 minutes", 120.0), ("1.5h", 5400.0),
        ("7d", 604_800.0), (".5s", 0.5), ("5", None), ("s", None), ("0s", None), ("-1s", None), ("5x", None),
        ("", None), ("5 s s", None), ("\u0665s", None), ("1e3s", None), ("nan s", None),
    ],
)  # fmt: skip
def test_a_time_needs_its_unit(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("5s", (None, 5.0)), ("10min", (None, 600.0)), ("2h", (None, 7200.0)), ("5", (5, None)), (5, (5, None)),
        ("1_000,000", (1_000_000, None)), (None, (None, None)),
    ],
)  # fmt: skip
def test_checkpoints_are_by_examples_or_by_time(text, every):
    assert checkpoint_every(text) == every


@pytest.mark.parametrize("text", ["soon", "5 parsecs", "0", "0s", "-5", "5s5s", "1" + "0" * 400 + "s"])
def test_what_is_neither_is_refused(text):
    with pytest.raises(BadInput, match="expected a number of examples, or a time such as"):
        checkpoint_every(text)
