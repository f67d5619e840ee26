"""Predictions become bytes in another thread: in order, few at a time, and no failure is lost."""

import io
import threading

import numpy as np
import pytest

from bayou.outputs.prediction_files import CsvPredictionWriter, PredictionChunk
from bayou.outputs.prediction_table import PredictionRows


def part(*numbers: float) -> PredictionChunk:
    return PredictionChunk(PredictionRows(np.array([numbers])))


class Slow(io.BytesIO):
    """A file that takes nothing before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def write(self, data) -> int:
        assert self.may.wait(10)
        return super().write(data)


class Full(io.BytesIO):
    def write(self, data) -> int:
        raise OSError(28, "No space left on device")


def test_parts_are_written_in_order_behind_their_header():
    with CsvPredictionWriter(io.BytesIO(), ["mean"], None) as table:
        for k in range(50):
            table.write(part(k, k + 0.5))
        table.end()
        lines = table._file.getvalue().decode().split()
    assert lines == ["mean", *(f"{k / 2:g}" for k in range(100))]


def test_whoever_predicts_does_not_run_away_from_a_slow_disk():
    file, written = Slow(), []
    with CsvPredictionWriter(file, ["mean"], None) as table:

        def write() -> None:
            for k in range(20):
                table.write(part(k))
                written.append(k)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join(0.2)
        assert len(written) <= CsvPredictionWriter.AHEAD
        file.may.set()
        thread.join(10)
        table.end()
    assert len(file.getvalue().split()) == 21


def test_a_failure_is_raised_by_a_later_write():
    with CsvPredictionWriter(Full(), ["mean"], None) as table:
        for k in range(CsvPredictionWriter.AHEAD):
            table.write(part(k))
        with pytest.raises(OSError, match="No space"):
            table.write(part(9))


def test_a_failure_of_the_last_part_is_raised_at_the_end():
    with CsvPredictionWriter(Full(), ["mean"], None) as table:
        table.write(part(1))
        with pytest.raises(OSError, match="No space"):
            table.end()


def test_behind_the_with_nothing_is_written_any_more():
    """As when a run is interrupted: what waits is dropped, and the file may be closed."""
    file = Slow()
    with CsvPredictionWriter(file, ["mean"], None) as table:
        for k in range(CsvPredictionWriter.AHEAD):
            table.write(part(k))
        file.may.set()
    size = len(file.getvalue())
    file.close()
    assert size <= len("mean\n0\n1\n2\n")
