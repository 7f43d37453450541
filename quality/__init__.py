"""How good the program is beyond a single rehearsal: injected faults, and measurements."""
