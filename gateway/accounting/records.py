"""The decision log: one content-free JSON line per call, on disk before the answer is released.

A streamed call's line says `"outcome": "streaming"`; how the stream ended follows in a second,
short line (`"kind": "end"`). Written with one `write(2)` each to a file opened for appending, so
lines of several processes do not mix.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from gateway import strictjson
from gateway.errors import GatewayError


class RecordUnwritable(GatewayError):
    """Without its record a call is not answered."""

    http_status, grpc_status, reason = 503, "UNAVAILABLE", "record_unwritable"


class DecisionLog(Protocol):
    def append(self, record: Mapping[str, Any]) -> None:
        """Raises RecordUnwritable."""
        ...


class FileDecisionLog:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._mend = b""  # ends the part of a line that a full disk left
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, record: Mapping[str, Any]) -> None:
        line = self._mend + strictjson.dumps(record) + b"\n"
        try:
            written = os.write(self._fd, line)
        except OSError as exc:
            raise RecordUnwritable(f"the decision log cannot be written: {exc.strerror}") from None
        self._mend = b"" if written == len(line) else b"\n"
        if self._mend:
            raise RecordUnwritable("the decision log cannot be written: no space is left")

    def close(self) -> None:
        os.close(self._fd)
