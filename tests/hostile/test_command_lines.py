"""A short hostile attack on the command; `benchmarks/hostile.py` goes on for as long as it is told to."""

import pytest

from tests.hostile.command_lines import COMMAND, try_lines


@pytest.mark.long
def test_whatever_the_command_line_it_ends_with_a_result_or_a_sentence():
    found = try_lines(seed=2, lines=400)
    assert found["findings"] == {}
    assert found["lines"] == 400
    # Lines of all kinds: done, wrong usage, bad data (5 to 9% of them); and every command does its work at least once.
    assert min(found["exit 0"], found["exit 2"]) > 100
    assert found["exit 1"] > 10
    done = {name.partition(":")[0] for name in found if name.endswith(": exit 0")}
    assert done - {"none"} == set(COMMAND.commands)


def test_a_few_lines_end_with_a_result_or_a_sentence():
    found = try_lines(seed=1, lines=30)
    assert found["findings"] == {}
    assert found["lines"] == 30
