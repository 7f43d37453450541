"""The nodes of the rehearsal's cluster: how they start, are shared and drained."""
