"""Ports for the servers that load tests and tests start."""

from __future__ import annotations

from gateway.endpoints.triton.server.ports import PortReservation

_RESERVED: list[PortReservation] = []


def free_port() -> int:
    """A port of 127.0.0.1 that is reserved until this process ends.

    Neither another process that calls this nor an outgoing connection of this machine takes it
    before the server that it is for listens.
    """
    _RESERVED.append(PortReservation())
    return _RESERVED[-1].port
