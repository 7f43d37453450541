"""What Kubernetes means by its own objects: quantities, taints, selectors, requests, GPU daemons.

Pure functions over plain API objects (maps and lists as JSON has them), with the standard library
alone. Where a value may not be known yet, as in a preview, a verdict is True, False or None.
"""
