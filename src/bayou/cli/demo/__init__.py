"""`bayou demo`: `command`, its numbers (`study`), its tables (`narration`), its picture."""
