"""Puts the checkout on this interpreter's path, and the command `gpu-cluster` next to it.

.venv/bin/python -m gpu_cluster.tools.checkout

The wheel has only the package `gpu_cluster`: the command needs the checkout's stack files.
"""

import sysconfig
from pathlib import Path

from gpu_cluster.tools.scripts import script

ROOT = Path(__file__).parents[2]


def main(scripts: Path, packages: Path) -> None:
    """Writes both files for this interpreter."""
    (packages / "gpu-cluster-checkout.pth").write_text(f"{ROOT}\n")
    scripts.mkdir(exist_ok=True)
    command = scripts / "gpu-cluster"
    command.unlink(missing_ok=True)
    command.write_text(
        script("import sys\n\nfrom gpu_cluster.cli.main import main\n\nsys.exit(main())\n")
    )
    command.chmod(0o755)


if __name__ == "__main__":
    main(Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("purelib")))
