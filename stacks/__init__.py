"""A stack's file, read as the engine reads it, and the copy of the program that one may change."""
