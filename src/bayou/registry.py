"""The registry of learners, under the name that it has for other packages: `bayou.core.registry`."""

from bayou.core.registry import Record, as_table, by_class, find, records

__all__ = ["Record", "as_table", "by_class", "find", "records"]
