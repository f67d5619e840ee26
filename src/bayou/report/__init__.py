"""Report of a run: one HTML file that shows what was learned and needs no network.

    recorder = Recorder(learner)                      # learns exactly as the learner does, and samples the run
    result = evaluate.progressive(recorder, recorder.split_at_recordings(batches))
    write("report.html", ReportedRun(recorder, result))

`recorder` samples the run, `uncertainty` separates epistemic from aleatoric uncertainty, `facts` computes all other
numbers, `figures` draws them, and `page` fills the templates, which say them in words (`summary.html`,
`captions.html`) and in tables (`page.html`), with the formats of `sentences`.
"""

from bayou.report.facts import DataFacts, ReportedRun
from bayou.report.page import write
from bayou.report.recorder import Recorder

__all__ = ["DataFacts", "Recorder", "ReportedRun", "write"]
