"""Threads that learners work in besides their caller's."""

import threading

from bayou.core import threads


def test_of_three_tasks_on_two_cores_none_waits_for_another_to_end(monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: 2)
    monkeypatch.setattr(threads, "_pools", {})
    together = threading.Barrier(3, timeout=10.0)
    threads.all_done([together.wait] * 3, apart=True)
    assert not together.broken
