"""What a person sees: `output` (pipes, progress, notes), `watch` (train), `compare`, `model` (info)."""
