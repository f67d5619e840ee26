"""Figure 3 of olss, on TalkingData: AUC against the number of features, on three later periods."""

from bayou.reproduce.olss import data
from bayou.reproduce.olss.periods import later_periods

run = later_periods(__name__, "Figure 3: TalkingData", data.talkingdata, minutes=(0.5, 5.0))
