"""Text output for people: `output` (pipes, progress, notes), `progress_table` (train), `compare`, `model` (info)."""
