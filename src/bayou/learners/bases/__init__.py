"""What families of learners share; no learners themselves."""
