"""A stack's file, parsed as the engine parses it, and a copy of the program that may be changed."""
