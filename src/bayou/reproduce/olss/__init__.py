"""Online spike-and-slab selection: its figures."""

PAPER = "olss"
PREFIX = "olss-"
CONTENTS = ("figure1", "figure2", "figure3", "figure4", "figure5")
