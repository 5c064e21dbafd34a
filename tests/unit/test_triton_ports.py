"""Ports of servers that start later: reserved, and out of the way of outgoing connections."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.endpoints.triton.server import ports
from gateway.endpoints.triton.server.ports import (
    ANY_PORTS,
    PortReservation,
    TritonPorts,
    reserve_ports,
)


def test_a_reserved_port_is_free_and_below_the_range_of_outgoing_connections() -> None:
    above = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with PortReservation() as reserved:
        assert 1024 < reserved.port < above
        with socket.create_server(("127.0.0.1", reserved.port)) as listener:
            assert listener.getsockname()[1] == reserved.port


def test_no_other_process_is_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = range(20_000, 20_002)
    monkeypatch.setattr(ports, "_range", lambda: pair)
    with PortReservation() as reserved:
        script = (
            "from gateway.endpoints.triton.server import ports\n"
            f"ports._range = lambda: {pair!r}\n"
            "held = ports.PortReservation()\n"
            "print(held.port)\n"
        )
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        assert {reserved.port, int(other.stdout)} == set(pair)


def test_a_port_that_is_taken_is_not_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_range", lambda: range(port, port + 1))
        with pytest.raises(OSError, match="no free port"):
            PortReservation()


def test_a_closed_reservation_may_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with PortReservation() as first:
        monkeypatch.setattr(ports, "_range", lambda: range(first.port, first.port + 1))
        with pytest.raises(OSError, match="no free port"):
            PortReservation()
    with PortReservation() as again:
        assert again.port == first.port


def test_ports_that_are_named_stay_and_zeros_become_different_ones() -> None:
    with contextlib.ExitStack() as reserved:
        found = reserve_ports(TritonPorts(0, 8001, 0), reserved)
        assert found.grpc == 8001
        assert len({found.http, found.grpc, found.metrics, 0}) == 4
        assert len({*numbers_of(found), *numbers_of(reserve_ports(ANY_PORTS, reserved))}) == 6


def numbers_of(found: TritonPorts) -> tuple[int, int, int]:
    return found.http, found.grpc, found.metrics
