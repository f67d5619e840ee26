"""What every part relies on: batches, links, learners and their predictions, records, recipes, model files, errors."""
