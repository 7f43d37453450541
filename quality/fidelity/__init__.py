"""Compares the offline plugins with the official ones: the same requests to both."""
