"""Structured logs: one JSON object a line, or plain lines on a terminal.

Exceptions are logged by type and place only: their text could quote a call (BEHAVIOURS C12).
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

_QUIET = ("httpx", "httpcore", "uvicorn.access", "presidio-analyzer", "asyncio", "grpc")


def configure(level: str, stream: TextIO | None = None) -> None:
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(PlainFormatter() if out.isatty() else JsonFormatter())
    # Libraries speak from WARNING on, whatever the level: at DEBUG some quote what they are given.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("gateway").setLevel(level.upper())
    for name in _QUIET:  # these quote URLs and texts in warnings and errors too
        logging.getLogger(name).setLevel(logging.CRITICAL)


def place(trace: TracebackType | None) -> str:
    """Module and line where an exception was raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["at"] = place(record.exc_info[2])
        return json.dumps(line, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} "
        text += f"{record.name.removeprefix('gateway.')}: {record.getMessage()}"
        if record.exc_info and record.exc_info[0] is not None:
            text += f" ({record.exc_info[0].__name__} at {place(record.exc_info[2])})"
        return text
