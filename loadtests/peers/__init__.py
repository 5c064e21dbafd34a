"""Other gateways, started beside Spillway in front of one backend and measured in turns with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Absent(Exception):
    """A peer that cannot be had here; the message says why, and stands in the table."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where peers are started: the backend that all of them stand in front of."""

    http_port: int
    grpc_port: int
    environments: Path  # what is installed, a folder for each peer; kept between runs
    scratch: Path  # settings, logs and records of this run

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"


@dataclass(frozen=True, slots=True)
class Running:
    """A peer that serves. An address that is None is a protocol that it does not speak."""

    pids: tuple[int, ...]
    chat_url: str | None = None
    v2_url: str | None = None
    grpc_target: str | None = None
    chat_model: str = "echo"
    v2_model: str = "echo"
    grpc_model: str = "echo"
    findings_model: str | None = None  # may be asked what must not leave
    chat_path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Peer(Protocol):
    name: str
    note: str
    """What is particular about how it runs here, for the table's foot; may be empty."""

    def start(self, site: Site) -> Running:
        """Installed, started, ready. Raises Absent."""

    def stop(self) -> None: ...
