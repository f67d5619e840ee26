"""The pictures of `bayou compare` and `bayou select`."""
