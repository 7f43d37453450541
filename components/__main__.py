"""Runs `python -m gpu_cluster ENGINE`, which is also what `python -m pulumi.run.plugin gpu-cluster`
runs."""

from .plugin import serve

if __name__ == "__main__":
    serve()
