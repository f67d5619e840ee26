"""Online spike-and-slab selection: its figures."""

PAPER, PREFIX = "olss", "olss-"
_LATER = "AUC against number of features on three later periods: SpikeSlab, FTRL, VW on"
CONTENTS = {
    "figure1": (0.5, 2.0, "features selected against rho0: Reuters, 20 Newsgroups, flights, TalkingData, "
                          "Criteo, Frappe"),
    "figure2": (1.0, 12.0, f"{_LATER} flights"),
    "figure3": (0.5, 5.0, f"{_LATER} TalkingData"),
    "figure4": (1.5, 25.0, "AUC and F1 against number of features on text; rare clicks; "
                           "inclusion probability against mean"),
    "figure5": (0.2, 0.5, "posterior variances of selected weights by group of features: flights and TalkingData"),
}  # fmt: skip
TAKE_DATA = tuple(CONTENTS)
