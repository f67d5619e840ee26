"""Tables in memory and in Parquet files, read through Arrow: pandas, polars, DuckDB, objects with `__arrow_c_stream__`.

A column becomes the cells that a CSV file would have: integers as their digits, booleans as true and false, times as
ISO 8601 (in UTC if they have a time zone). Numbers that are binned or scaled are used directly. For columns with a
dictionary, each of its values is hashed once and rows are looked up. Null and NaN are missing. Structs are columns with
dots in their names, `user.age`; lists give an indicator for each value, as in JSON.
"""
