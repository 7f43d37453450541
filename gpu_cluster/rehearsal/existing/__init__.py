"""Clusters that the stack does not create, as a rehearsal has them, and their inventories."""
