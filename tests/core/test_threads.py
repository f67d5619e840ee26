"""Threads that learners work in besides their caller's."""

import os
import sys
import threading

import pytest

from bayou.core import threads


def test_of_three_tasks_on_two_cores_none_waits_for_another_to_end(monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    monkeypatch.setattr(threads, "_pools", {})
    together = threading.Barrier(3, timeout=10.0)
    threads.run_all([together.wait] * 3, parallel=True)
    assert not together.broken


def test_nothing_follows_in_yet_another_thread_where_cores_are_busy_with_reading(monkeypatch):
    def follows_elsewhere() -> bool:
        return threads.pipeline_executor().submit(threading.get_ident).result() != threading.get_ident()

    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    assert follows_elsewhere()
    with threads.with_io_threads():
        assert not follows_elsewhere()
        with threads.with_io_threads():
            pass
        assert not follows_elsewhere()
        monkeypatch.setattr(threads, "available_cores", lambda: 8)
        assert follows_elsewhere()
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    assert follows_elsewhere()


def test_whoever_takes_the_guard_finds_everything_done_that_was_left_behind():
    guard, go_on, done = threads.DrainingLock(), threading.Event(), []
    with threads.SerialExecutor("later", max_pending=4) as turn:
        with guard.pipelined(turn):
            turn.submit(go_on.wait, 10.0)
            turn.submit(done.append, 1)
        with guard.pipelined(turn):  # of the same turn: no need to wait
            assert not done
            turn.submit(done.append, 2)
        go_on.set()
        with guard:
            assert done == [1, 2]


def test_several_may_wait_for_a_turn_at_once():
    """Each until all is done, and not only until somebody else has begun to wait for the last of it."""
    go_on, done, seen = threading.Event(), [], []
    with threads.SerialExecutor("later", max_pending=4) as turn:
        turn.submit(go_on.wait, 10.0)
        turn.submit(done.append, 1)
        waiting = [threading.Thread(target=lambda: (turn.drain(), seen.append(list(done)))) for _ in range(3)]
        for one in waiting:
            one.start()
        go_on.set()
        for one in waiting:
            one.join()
    assert seen == [[1]] * 3
    turn.drain()  # behind the `with` there is nothing to wait for


def test_what_was_brought_is_done_though_an_error_ends_the_work():
    done = []
    try:
        with threads.SerialExecutor("later", max_pending=4) as turn:
            for k in range(3):
                turn.submit(done.append, k)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert done == [0, 1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_who_works_for_others_is_nicer_and_nobody_else():
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before, found = priority(), []
    with threads.SerialExecutor("nice", max_pending=1) as turn:
        turn.submit(lambda: found.append(priority()))
    assert found == [min(before + threads.NICENESS_STEP, 19)]
    assert priority() == before
