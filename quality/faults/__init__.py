"""Fault injection: hundreds of runs with faults, in the rehearsal's sandboxes."""
