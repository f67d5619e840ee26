"""The report of a run: one HTML file that shows what was learned, and opens with no network.

    recorder = Recorder(learner)                      # learns as the learner does, and remembers
    result = evaluate.progressive(recorder, recorder.cut(batches))
    write("report.html", Run(recorder, result))

`recorder` remembers, `uncertainty` tells what more examples would remove from what they would not, `facts` computes all
other numbers, `words` and `figures` show them in sentences and plots, and `page` puts it all into one file.
"""

from bayou.report.facts import Data, Run
from bayou.report.page import write
from bayou.report.recorder import Recorder

__all__ = ["Data", "Recorder", "Run", "write"]
