"""Data formats: one module or package per format, which turns text or tables into rows."""
