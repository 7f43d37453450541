"""The benchmark: what the program costs in time, memory and money against what it could cost."""
