"""What `python -m rehearsal` was is a command now."""

import sys

sys.exit("python -m rehearsal is gpu-cluster rehearse now (python -m cli rehearse)")
