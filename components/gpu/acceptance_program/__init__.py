"""Measures the GPUs of a node in any image with PyTorch: `python3 -m gpu_test`.

It runs in a container, from a ConfigMap, on Python 3.10 or later, with only the standard library
and PyTorch, and without anything of this project outside this folder.
"""
