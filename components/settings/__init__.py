"""The settings of a stack: read, checked, resolved."""
