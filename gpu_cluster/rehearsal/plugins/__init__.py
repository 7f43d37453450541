"""Offline provider plugins, for machines that cannot download the official ones."""
