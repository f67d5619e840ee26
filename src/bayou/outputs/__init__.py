"""What bayou writes for others: prediction tables, plain models, text."""
