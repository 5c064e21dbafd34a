"""Ports for an embedded Triton, chosen where no outgoing connection of this machine is given one.

The kernel takes the source ports of outgoing connections from `ip_local_port_range` (32768 to
60999 by default, ip(7)). A server that comes back on a port of that range fails to bind while such
a connection lives, so ports are taken from below it.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.core import ambient

LOOPBACK = "127.0.0.1"
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_FROM = 32768  # where the file cannot be read
_LOWEST = 10_000
_FEWEST = 1_000  # where fewer are below that range, all ports are candidates
_ATTEMPTS = 200


@dataclass(frozen=True, slots=True)
class TritonPorts:
    """TCP ports of the loopback address; 0 asks for a free one."""

    http: int
    grpc: int
    metrics: int


ANY_PORTS = TritonPorts(0, 0, 0)


class PortReservation:
    """A TCP port of the loopback address that was free, and that no other reservation names.

    It lasts until `close` or the end of the process. The port itself is not bound: a server is to
    bind it. The mark is a Unix socket's abstract name, which belongs to a network namespace like
    the port does (unix(7), network_namespaces(7)).
    """

    __slots__ = ("_mark", "port")

    def __init__(self) -> None:
        ports, dice = _range(), ambient.UnseededRandom()
        for _ in range(_ATTEMPTS):
            port = dice.choice(ports)
            mark = socket.socket(socket.AF_UNIX)
            try:
                mark.bind(f"\0spillway-port-{port}")
                with socket.socket() as listener:
                    listener.bind((LOOPBACK, port))
            except OSError:
                mark.close()
                continue
            self.port = port
            self._mark = mark
            return
        raise OSError("found no free port of 127.0.0.1")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._mark.close()


def reserve_ports(wanted: TritonPorts, reserved: contextlib.ExitStack) -> TritonPorts:
    """The ports wanted; each zero becomes a port that stays reserved while `reserved` is open."""

    def free() -> int:
        return reserved.enter_context(PortReservation()).port

    return TritonPorts(wanted.http or free(), wanted.grpc or free(), wanted.metrics or free())


def _range() -> range:
    above = _EPHEMERAL_FROM
    with contextlib.suppress(OSError, ValueError, IndexError):
        above = int(_EPHEMERAL.read_text().split()[0])
    return range(_LOWEST, above) if above - _LOWEST >= _FEWEST else range(_LOWEST, 65536)
