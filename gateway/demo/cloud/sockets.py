"""Loopback ports that are kept while they refuse, and connections that end with a reset."""

import asyncio
import contextlib
import socket
import struct


class LoopbackPort:
    """A port held by a socket that never listens.

    While no other socket listens on it the kernel refuses connections, and nobody can take it.
    """

    def __init__(self, port: int) -> None:
        self._held = _bound(port)
        self.number: int = self._held.getsockname()[1]

    def listening_socket(self) -> socket.socket:
        return _bound(self.number)

    def close(self) -> None:
        self._held.close()


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.setblocking(False)
    bound.bind(("127.0.0.1", port))
    return bound


def reset(transport: asyncio.WriteTransport) -> None:
    """Close with RST instead of FIN: linger on, for zero seconds."""
    raw = transport.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):  # the peer was faster
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
