"""Online spike-and-slab selection: its figures."""
