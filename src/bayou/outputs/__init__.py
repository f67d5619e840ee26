"""Output formats: prediction tables, feature strengths, explanations, plain models, text."""
