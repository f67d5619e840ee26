"""Public alias, for other packages, of the registry of learners (`bayou.core.registry`)."""

from bayou.core.registry import Record, as_table, by_class, find, records

__all__ = ["Record", "as_table", "by_class", "find", "records"]
