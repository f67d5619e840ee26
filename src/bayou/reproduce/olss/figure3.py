"""Figure 3 of olss, on TalkingData: AUC against the number of features, on three later periods."""

from bayou.reproduce.experiment import Report
from bayou.reproduce.olss import comparison, data


def run(report: Report) -> None:
    comparison.report_later_periods(report, "Figure 3: TalkingData", data.talkingdata)
