"""Figure 3 of olss, on TalkingData: AUC against the number of features, on three later periods."""

from __future__ import annotations

from bayou.reproduce.experiment import Experiment, Options, Outcome
from bayou.reproduce.olss import data
from bayou.reproduce.olss.comparison import PAPER
from bayou.reproduce.olss.figure2 import later


def run(options: Options) -> Outcome:
    problem = data.talkingdata(data.folder(options.data))
    return later("olss-figure3", "Figure 3: TalkingData", problem, options)


RECORD = Experiment(
    name="olss-figure3",
    paper=PAPER,
    what="AUC against number of features on three later periods: SpikeSlab, FTRL, VW on TalkingData",
    minutes=(0.5, 5.0),
    run=run,
    takes_data=True,
)
