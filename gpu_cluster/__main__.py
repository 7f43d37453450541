"""Runs `python -m gpu_cluster ENGINE`, as `python -m pulumi.run.plugin gpu-cluster` does."""

from .components.plugin import serve

if __name__ == "__main__":
    serve()
