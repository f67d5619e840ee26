"""Parser of Vowpal Wabbit text; `reader` describes the grammar."""
