"""Ctrl-C while Numba works: it waits until that is done, and is not lost."""

import os
import signal
import subprocess
import sys
import time

import pytest

import bayou
from bayou.cli.interrupts import NOT_WITHIN, InterruptHandler

PRESS = "signal.raise_signal(signal.SIGINT)\nseen.append('within')\ntime.sleep(0.1)\nseen.append('done')"


@pytest.fixture
def installed(monkeypatch):
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGALRM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    InterruptHandler().install()
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for kind, handler in before.items():
        signal.signal(kind, handler)


@pytest.mark.parametrize("place", [f"{place}some.py" for place in NOT_WITHIN])
def test_it_waits_until_numba_is_left(installed, place):
    seen = []
    code = f"exec(compile({PRESS!r}, {place!r}, 'exec'))\ntime.sleep(10)"
    with pytest.raises(KeyboardInterrupt):
        exec(code, {"signal": signal, "time": time, "seen": seen})
    assert seen == ["within", "done"]


def test_elsewhere_it_is_at_once(installed):
    seen = []
    with pytest.raises(KeyboardInterrupt):
        exec(compile(PRESS, "/elsewhere.py", "exec"), {"signal": signal, "time": time, "seen": seen})
    assert seen == []


def test_it_reaches_whoever_listens_by_then(installed):
    seen = []
    exec(compile(PRESS, f"{NOT_WITHIN[0]}x.py", "exec"), {"signal": signal, "time": time, "seen": []})
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    signal.raise_signal(signal.SIGALRM)
    assert seen == [signal.SIGINT]


def test_where_it_is_ignored_it_stays_so(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        InterruptHandler().install()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.long
def test_commands_that_are_interrupted_while_they_start_end(tmp_path):
    """At any moment, with nothing compiled at first; a model that was there before is as it was, or a better one."""
    clicks, model = tmp_path / "clicks.svm", tmp_path / "m.bayou"
    run = [sys.executable, "-m", "bayou"]
    subprocess.run([*run, "simulate", "random", "--examples", "300000", "--out", str(clicks)], check=True)
    train = [*run, "train", str(clicks), "--bits", "12", "--model", str(model), "--quiet"]
    subprocess.run(train, check=True)
    for k in range(6):
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / f"cache{k // 4}")}
        begun = subprocess.Popen(
            [*run, "train", str(clicks), "--bits", "12", "--model", str(model), "--quiet"], env=env
        )
        time.sleep(0.3 + 0.5 * k)
        begun.send_signal(signal.SIGINT)
        # Before the command is loaded, the signal itself ends the process; a shell says 130 of that, too.
        assert begun.wait(60) in (0, 130, -signal.SIGINT)
        assert bayou.load(model).examples > 0
