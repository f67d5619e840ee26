"""Text output for people: `output` (pipes, progress, notes), `watch` (train), `compare`, `model` (info)."""
