"""Shared foundations: batches, links, learners and their predictions, records, recipes, model files, errors."""
