"""Using the engine for a stack: its commands, plans, states and URNs."""
