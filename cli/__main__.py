"""`python -m cli`: the same as `gpu-cluster`, where the package is not installed."""

import sys

from cli.main import main

sys.exit(main())
