"""The nodes of the rehearsal's cluster: who starts, shares and drains them, and what they offer."""
