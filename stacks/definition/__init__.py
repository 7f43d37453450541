"""What a stack's file says: found, read, checked, copied and written."""
