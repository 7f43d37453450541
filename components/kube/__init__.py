"""The semantics of Kubernetes objects: quantities, taints, selectors, requests, GPU daemons.

Pure functions over plain API objects (maps and lists as in JSON) that only use the standard
library. If a value may not be known yet, as in a preview, a verdict is True, False or None.
"""
