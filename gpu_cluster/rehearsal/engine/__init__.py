"""The engine, the programs that it starts, and the copy of the stack that it runs."""
