"""The network bridge between a real node's pods and this machine, set up without external programs.

Pods reach only the machine and each other: there is no address translation and no routing.
"""

import fcntl
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.rehearsal.gpu_node.machine import NodeError

INTERFACES = Path("/sys/class/net")
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
SIOCBRADDBR, SIOCBRDELBR = 0x89A0, 0x89A1
IFF_UP = 0x1


@dataclass(frozen=True, slots=True)
class Bridge:
    """One bridge and the addresses behind it; `name` has at most 15 characters."""

    name: str
    subnet: str
    """The first three numbers of the addresses: a /24 of 198.18.0.0/15, the range for measurements,
    which no network uses."""

    @property
    def address(self) -> str:
        """The machine's own address on the bridge."""
        return f"{self.subnet}.1"

    @property
    def exists(self) -> bool:
        return (INTERFACES / self.name).exists()

    def make(self) -> None:
        """Creates the bridge and its address. Raises NodeError if the kernel has no bridges."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            try:
                fcntl.ioctl(control, SIOCBRADDBR, self.name.encode() + b"\0")
            except OSError as error:
                raise NodeError(
                    f"a real node's pods need a network bridge, and none can be created "
                    f"({error.strerror}): load the kernel's module `bridge`"
                ) from None
            for request, address in (
                (SIOCSIFADDR, self.address),
                (SIOCSIFNETMASK, "255.255.255.0"),
            ):
                packed = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
                fcntl.ioctl(control, request, struct.pack("16s16s8x", self.name.encode(), packed))
            self._flags(control, up=True)

    def add(self, address: str) -> None:
        """Gives the machine another address on the bridge, which goes with it."""
        alias = f"{self.name}:1".encode()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            packed = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, SIOCSIFADDR, struct.pack("16s16s8x", alias, packed))

    def remove(self) -> None:
        """Removes the bridge, if it exists."""
        if not self.exists:
            return
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            self._flags(control, up=False)
            fcntl.ioctl(control, SIOCBRDELBR, self.name.encode() + b"\0")

    def _flags(self, control: socket.socket, *, up: bool) -> None:
        name = self.name.encode()
        asked = fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sH22x", name, 0))
        (flags,) = struct.unpack_from("H", asked, 16)
        flags = flags | IFF_UP if up else flags & ~IFF_UP
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", name, flags))
