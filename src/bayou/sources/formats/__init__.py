"""One format each: text or a table into rows."""
