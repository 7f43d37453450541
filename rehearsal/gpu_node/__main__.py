"""`python -m rehearsal.gpu_node STACK`: whether this machine can be a GPU node of that stack.

Exit code 0: it can. 2: it cannot, and one line says why. Nothing is built or changed for that.
"""

import sys

from rehearsal.gpu_node.host_node import pool_of
from rehearsal.gpu_node.machine import NodeError, look
from stacks import command as commands


def main() -> int:
    """Parses the command line; returns the exit code."""
    parser = commands.Parser(prog="rehearsal.gpu_node", description=__doc__)
    parser.add_stack()
    parser.add_argument("--node", default="gpu", help="what the node has; there are GPU nodes only")
    args = parser.parse_args()
    stack = args.stack
    try:
        if args.node != "gpu":
            raise NodeError(f"NODE={args.node} is not known; allowed: gpu")
        pool = pool_of(stack)
        machine = look()
    except NodeError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"this machine will be a node of pool {pool} of {stack}: {machine.description}")
    return 0


if __name__ == "__main__":
    sys.exit(commands.run(main))
