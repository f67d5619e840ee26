"""Reading of files as blocks of bytes, and parsing of blocks in parallel, with results in order."""
