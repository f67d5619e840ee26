"""Work done ahead by other threads, with results in order."""

import time

import pytest

from bayou.core.errors import BadInput
from bayou.sources.reading import parallel_map
from bayou.sources.reading.parallel_map import ParallelMap


@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize("help", [True, False])
def test_results_come_in_order(threads, help) -> None:
    def slow_square(k: int) -> int:
        time.sleep(0.002 * (k % 3))
        return k * k

    assert list(ParallelMap(range(50), slow_square, threads, help)) == [k * k for k in range(50)]


@pytest.mark.parametrize("threads", [0, 2])
def test_errors_come_when_it_is_their_turn(threads) -> None:
    def work(k: int) -> int:
        if k == 5:
            raise BadInput("five")
        return k

    ahead = ParallelMap(range(20), work, threads)
    assert [next(ahead) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(BadInput, match="five"):
        next(ahead)

    def tasks():
        yield 1
        raise BadInput("reading")

    ahead = ParallelMap(tasks(), work, threads)
    assert next(ahead) == 1
    with pytest.raises(BadInput, match="reading"):
        next(ahead)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_no_more_than_a_few_tasks_are_taken_ahead(threads) -> None:
    taken = []

    def tasks():
        for k in range(100):
            taken.append(k)
            yield k

    ahead = ParallelMap(tasks(), lambda k: k, threads)
    for k in range(30):
        assert next(ahead) == k
        assert len(taken) <= k + 1 + parallel_map.TASKS_PER_THREAD * (threads + 1) + threads + 1
    ahead.close()


def test_stopping_ends_it_and_the_threads() -> None:
    ahead = ParallelMap(iter(int, 1), lambda k: k, threads=2)
    next(ahead)
    ahead.stop()
    assert list(ahead) == []
    ahead.close()
    for thread in ahead._threads:
        thread.join(timeout=10)
        assert not thread.is_alive()
