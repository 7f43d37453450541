"""Puts the checkout on this interpreter's path: pip installs only `gpu_cluster`, with its command.

.venv/bin/python -m gpu_cluster.tools.checkout
"""

import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main(packages: Path) -> None:
    """Writes the file that Python reads at its start."""
    (packages / "gpu-cluster-checkout.pth").write_text(f"{ROOT}\n")


if __name__ == "__main__":
    main(Path(sysconfig.get_path("purelib")))
