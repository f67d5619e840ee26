"""A process that is forked while another thread learns has whole learners, or is told why not; it never hangs."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from bayou import Batch, sources
from bayou.core import forking
from bayou.learners import Bank, Marginal

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def in_a_child(work) -> str:
    """What `work` gives in a forked process, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = str(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    until = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reading)
            return "hangs"
        time.sleep(0.002)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def rows(n=20_000):
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 100, (n, 5))
    return Batch.from_rows([dict.fromkeys(map(int, row), 1.0) for row in indices], labels=rng.choice([1, -1], n))


@pytest.fixture(scope="module")
def batch():
    return rows()


@pytest.fixture
def learning(batch):
    """Has a learner learn all the time in another thread."""
    ends, threads = threading.Event(), []

    def start(learner):
        learner.learn(batch)  # the kernels are there

        def go_on():
            while not ends.is_set():
                learner.learn(batch)

        threads.append(threading.Thread(target=go_on))
        threads[-1].start()

    yield start
    ends.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("kind", [Marginal, Bank])
def test_the_child_has_a_whole_learner(kind, batch, learning):
    learner = kind(n_features=100)
    learning(learner)

    def work():
        learner.predict(batch)
        learner.learn(batch)
        return learner.examples % len(batch)

    assert [in_a_child(work) for _ in range(6)] == ["0"] * 6
    assert learner.predict(batch[:3]).probability.shape == (3,)  # and the parent goes on


def test_a_learner_that_is_never_at_rest_says_so(batch, monkeypatch):
    monkeypatch.setattr(forking, "PATIENCE", 0.05)
    learner, held, ends = Marginal(n_features=100), threading.Event(), threading.Event()

    def hold():
        with learner._lock:
            held.set()
            ends.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    assert in_a_child(lambda: learner.predict(batch)).startswith("BadInput: this process was forked while")
    ends.set()
    thread.join()
    assert in_a_child(lambda: learner.predict(batch).probability.size) == str(len(batch))


def test_a_fork_of_a_thread_that_is_learning_itself(batch):
    learner = Marginal(n_features=100)
    with learner._lock:
        assert in_a_child(lambda: learner.predict(batch).probability.size) == str(len(batch))


def test_data_that_are_being_read_are_not_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 1000)
    path = tmp_path / "x.svm"
    path.write_text("1 3:1\n-1 4:1\n" * 5000)
    source = sources.open(path, threads=2)
    begun = iter(source)
    next(begun)
    assert in_a_child(lambda: list(begun)).startswith("BadInput: this process was forked while these data")
    assert in_a_child(lambda: sum(map(len, source))) == "10000"  # from the beginning
    assert in_a_child(lambda: begun.close()) == "None"
    assert sum(map(len, begun)) > 5000
