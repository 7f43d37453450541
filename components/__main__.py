"""`python -m gpu_cluster ENGINE`, which `python -m pulumi.run.plugin gpu-cluster` runs too."""

from .plugin import serve

if __name__ == "__main__":
    serve()
