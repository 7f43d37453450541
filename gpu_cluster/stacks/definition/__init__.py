"""A stack's file: found, parsed, checked, copied and written."""
