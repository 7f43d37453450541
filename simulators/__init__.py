"""The simulated clouds."""
