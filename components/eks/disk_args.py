"""What a gp3 volume of a GPU node can be."""

from components.catalog import eks as catalog

LEAST_DISK_GIB = 100
"""CUDA images take 5 to 20 GB each."""


def check_disk(size_gb: int, throughput: int, iops: int) -> None:
    """Raises ValueError, with the key in front, for a volume that EBS does not make."""
    if size_gb < LEAST_DISK_GIB:
        raise ValueError(
            f"diskSizeGb: {size_gb} is too small for CUDA images; allowed: {LEAST_DISK_GIB} or more"
        )
    if size_gb > catalog.MAX_DISK_GIB:
        raise ValueError(
            f"diskSizeGb: {size_gb} is too large; allowed: at most {catalog.MAX_DISK_GIB}"
        )
    least, most = catalog.GP3_THROUGHPUT
    if not least <= throughput <= most:
        raise ValueError(
            f"diskThroughput: {throughput} is out of range; allowed: {least} to {most} MiB/s"
        )
    least, most = catalog.GP3_IOPS
    least = max(least, throughput * catalog.GP3_IOPS_PER_THROUGHPUT)
    most = min(most, size_gb * catalog.GP3_IOPS_PER_GIB)
    if not least <= iops <= most:
        raise ValueError(
            f"diskIops: {iops} is out of range; allowed with diskThroughput {throughput} and "
            f"diskSizeGb {size_gb}: {least} to {most}"
        )
