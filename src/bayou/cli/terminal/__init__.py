"""What a person sees: `output` (pipes, progress, notes), `watch` (of `bayou train`), `board` (of `bayou compare`)."""
