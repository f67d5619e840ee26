"""Jobs shared among processes: the same results, and an end as soon as nobody wants them."""

import numpy as np
import pytest

from bayou.reproduce.jobs import run_all
from bayou.reproduce.marginal_gaussian.streams import Method, Panel, PanelDraw


def jobs(examples, draws):
    methods = (Method("AdaGrad", "AdaGrad", {}, "learning_rate", (0.1, 0.4)),)
    panel = Panel("tiny", "tiny", "random", {"n_features": 20, "active": 0.5}, 20, methods, 10, (1, 1))
    return [PanelDraw(panel, seed, examples) for seed in range(draws)]


def test_processes_change_no_bit_and_report_all_work():
    seen = []
    apart = run_all(jobs(2000, 3), 2, seen.append)
    together = run_all(jobs(2000, 3), 1, lambda done: None)
    assert [(a.draw, a.setting) for a in apart] == [(b.draw, b.setting) for b in together]
    for a, b in zip(apart, together, strict=True):
        np.testing.assert_array_equal(a.regret, b.regret)
    assert seen[-1] == pytest.approx(1.0)


def test_an_interrupt_ends_the_processes():
    def interrupt(done):
        raise KeyboardInterrupt

    # More work than anybody would wait for.
    with pytest.raises(KeyboardInterrupt):
        run_all(jobs(10**12, 2), 2, interrupt)
