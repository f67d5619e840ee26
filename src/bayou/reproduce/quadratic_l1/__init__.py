"""Online, multi-pass and reduced-memory L1 regression from quadratic sketches: its tables and figures."""
