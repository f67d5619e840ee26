"""Base classes and shared parts of families of learners."""
