"""The program's quality beyond a single rehearsal: injected faults, and measurements."""
