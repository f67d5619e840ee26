"""Online, multi-pass and reduced-memory L1 regression from quadratic sketches: its tables and figures."""

PAPER = "quadratic-l1"
PREFIX = "l1-"
CONTENTS = ("table1", "table2", "table3", "table4", "table5", "table6", "figure3", "figure4")
