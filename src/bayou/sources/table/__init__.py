"""Conversion of table columns to features: column roles, and the features of each cell."""
