"""The first run of a stack on a real cloud: everything once, then destroyed, within limits."""
