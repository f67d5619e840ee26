"""CSV, TSV and files in Criteo's layout: `split` finds the cells of each row, `reader` turns them into examples."""
