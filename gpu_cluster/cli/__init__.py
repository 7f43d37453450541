"""Commands about a stack: each prints a table or JSON and ends with 0, 1 (a finding) or 2."""
