"""`python -m gpu_cluster.cli`: the same as `gpu-cluster`, where the package is not installed."""

import sys

from gpu_cluster.cli.main import main

sys.exit(main())
