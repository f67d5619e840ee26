"""Tables in memory and in Parquet files, by way of Arrow: pandas, polars, DuckDB, anything with `__arrow_c_stream__`.

A column becomes cells as a CSV file would have them: whole numbers as their digits, truths as true and false,
points in time as ISO 8601 (in UTC if they have a time zone). Numbers that are binned or scaled are taken as they are.
Columns with a dictionary have each of its values hashed once; their rows are then looked up. Null, and NaN, is missing.
Structs are columns named by dots, `user.age`; lists give an indicator for each value, as in JSON.
"""
