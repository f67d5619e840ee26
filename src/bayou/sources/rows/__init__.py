"""Rows with arbitrary names: Python dictionaries and JSON objects, without a table to fit a recipe to.

    encoder         dictionaries, data frames and matrices as batches (`RowEncoder`)
    json_rows       lines of JSON as blocks of rows (`JsonRowParser`), bit for bit as `RowEncoder` gives them
    json_objects    one line of JSON as a flat dictionary, or the reason why it is bad
    json_scan       kernel that scans plain lines of JSON in place
    hashes          hashes of names
    kernels         kernels that hash one row and make it canonical

A number or boolean is the feature's value. A text is a category: each pair of name and text is an indicator. None, null
and NaN are missing, which is the same as absent. A name is turned into a feature in one of two ways:

    hashed      murmur3 of the name; for a category, of its text with the name's hash as the seed, as columns of files
                are hashed. In Python a name that is an integer is the feature's index (folded to 32 bits, and taken
                modulo the table).
    numbered    by a dictionary, in the order in which names first occur; a category's name there is "name=text".

The order of names in a row does not matter, not by one bit: numbers come first, then categories, each ordered by the
hash of their names, so that a table need not be sorted row by row.
"""
