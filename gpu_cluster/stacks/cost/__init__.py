"""The cost of a stack, from list prices."""
