"""Whether the quotas and offers of a cloud let the pools grow."""
