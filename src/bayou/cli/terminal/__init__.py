"""What a person sees: `output` (pipes, progress, notes), `watch` (train), `board` (compare), `model` (info)."""
