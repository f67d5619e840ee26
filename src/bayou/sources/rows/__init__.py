"""Rows of whatever names: dictionaries of Python, and JSON objects, without a table to fit a recipe to.

    encoder         dictionaries, data frames and matrices as batches (`Rows`)
    json_rows       lines of JSON as blocks of rows (`JsonRows`), to the very bits of `Rows`
    json_objects    one line of JSON as a flat dictionary, or what is wrong with it
    json_scan       plain lines of JSON, read by a kernel where they stand
    hashes          the hash of a name
    kernels         one row, hashed and made canonical

A number or truth value is the feature's value. A text is a category: an indicator of its own for each name and text.
What is None, null or not a number (NaN) is missing, and as good as absent. A name's feature is found in one of two
ways:

    hashed      murmur3 of the name; of a category's text, from the hash of its name on, as columns of files are hashed.
                In Python a name that is a whole number is the feature's own number (folded, if it is too wide for the
                table).
    numbered    by a dictionary, in the order in which names come; a category's name there is "name=text".

The order of names in a row does not matter, not by one bit: numbers come first, then categories, each ordered by the
hash of their names, so that a table need not be sorted row by row.
"""
