"""Vowpal Wabbit text: `reader` has the grammar."""
