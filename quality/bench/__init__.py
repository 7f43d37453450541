"""The benchmark: the program's cost in time, memory and money, compared with the least possible."""
