"""What measures the GPUs of a node, in any image with PyTorch: `python3 -m gpu_test`.

It runs inside a container, from a ConfigMap, on Python 3.10 or newer: the standard library and only
PyTorch, and nothing of this project outside this folder.
"""
