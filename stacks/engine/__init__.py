"""What the engine does with a stack: its commands, plans, states and URNs."""
