"""Recipes, which turn raw rows into examples: feature names, numbering, hashing, groups, crosses and labels."""
