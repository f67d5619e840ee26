"""Online, multi-pass and reduced-memory L1 regression from quadratic sketches: its tables and figures."""

PAPER, PREFIX = "quadratic-l1", "l1-"
CONTENTS = {
    "table1": (0.2, 1.0, "online L1 estimates against the batch solution, 11 weights, gamma = 10, "
                         "up to 100,000 examples"),
    "table2": (0.2, 0.5, "online and one to three passes against the batch solution, probit and logistic, 11 weights"),
    "table3": (0.2, 0.4, "Reuters 'earn', gamma = 100: online, all memory, reduced memory with k = 300, against batch"),
    "table4": (0.3, 1.0, "Reuters 'earn', gamma = 10: reduced memory with k from 300 to 3120, against batch"),
    "table5": (0.8, 3.0, "IMDB and Enron (for RCV1): a tenth of the documents by all algorithms, "
                         "all of them by reduced memory"),
    "table6": (1.5, 8.0, "IMDB and Enron (for RCV1): cross-validated on a tenth of the documents "
                         "against plain training on all"),
    "figure3": (0.3, 0.3, "online estimates of 11 weights beside the batch ones, gamma = 100, up to 100,000 examples"),
    "figure4": (0.3, 0.3, "four of figure 3's weights, with the distance between online and batch"),
}  # fmt: skip
TAKE_DATA = ("table3", "table4", "table5", "table6")
