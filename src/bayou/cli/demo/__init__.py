"""`bayou demo`: `command`, its numbers (`study`), its tables (`words`), its picture."""
