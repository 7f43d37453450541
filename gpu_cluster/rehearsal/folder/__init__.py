"""The folder of a rehearsal: its lock, and the process that holds it."""
