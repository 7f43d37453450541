"""Proof beyond a single rehearsal: hundreds of runs with faults, on the rehearsal's sandboxes."""
