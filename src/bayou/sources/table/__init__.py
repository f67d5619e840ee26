"""From the columns of a table to features: what each column is, and what its cells become."""
