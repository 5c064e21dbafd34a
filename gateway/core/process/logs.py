"""Structured logs: one JSON object a line, or plain lines on a terminal.

No content can be logged (BEHAVIOURS C12): exceptions appear by type and place only, for their text
could quote a call; an argument of a line that is no number, name or code is replaced by its type;
and libraries are silent where they quote what they are given.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import PurePath
from types import TracebackType
from typing import TextIO

_QUIET = ("httpx", "httpcore", "uvicorn.access", "presidio-analyzer", "asyncio", "grpc")
_PLAIN = (bool, int, float, type(None), PurePath)
_MOST_CAUSES = 8
_LONGEST = 1000  # characters of names, a code or a reason


def call_fields(call: str, trace: str) -> dict[str, str]:
    """The `extra` of a line about one call: what its record is found by."""
    return {"call": call, "trace": trace}


def configure(
    level: str, form: str = "auto", stream: TextIO | None = None, worker: int | None = None
) -> bool:
    """`form`: json, text, or auto, which is text on a terminal. `worker`: which of several
    processes speaks. Returns whether lines are JSON."""
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    plain = out.isatty() if form == "auto" else form == "text"
    handler.setFormatter(PlainFormatter() if plain else JsonFormatter())
    if worker is not None:
        handler.addFilter(_Named(worker))
    # Libraries speak from WARNING on, whatever the level: at DEBUG some quote what they are given.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("gateway").setLevel(level.upper())
    for name in _QUIET:  # these quote URLs and texts in warnings and errors too
        logging.getLogger(name).setLevel(logging.CRITICAL)  # guard: T4.library-logs
    return not plain


def place(trace: TracebackType | None) -> str:
    """Module and line where an exception was raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"


def causes(exc: BaseException | None) -> list[str]:
    """What an exception came from, the nearest first: types and places, as of itself."""
    chain: list[str] = []
    while exc is not None and len(chain) < _MOST_CAUSES:
        exc = exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)
        if exc is not None:
            chain.append(f"{type(exc).__name__} at {place(exc.__traceback__)}")
    return chain


def message(record: logging.LogRecord) -> str:
    """What a line says, with nothing in it that could be a part of a call."""
    args = record.args
    if isinstance(args, tuple) and args:
        return str(record.msg) % tuple(_without_content(one) for one in args)
    return str(record.msg) if not args else f"{record.msg} {{{type(args).__name__}}}"


def _without_content(value: object) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{{{len(value)} characters}}"
    return f"{{{type(value).__name__}}}"  # guard: T4.log-arguments -> return value


class _Named(logging.Filter):
    def __init__(self, worker: int) -> None:
        super().__init__()
        self._worker = worker

    def filter(self, record: logging.LogRecord) -> bool:
        record.worker = self._worker
        return True


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message(record),
        }
        line |= {k: getattr(record, k) for k in ("worker", "call", "trace") if hasattr(record, k)}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["at"] = place(record.exc_info[2])
            if chain := causes(record.exc_info[1]):
                line["causes"] = chain
        return json.dumps(line, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} "
        text += f"{record.name.removeprefix('gateway.')}: {message(record)}"
        if record.exc_info and record.exc_info[0] is not None:
            places = [f"{record.exc_info[0].__name__} at {place(record.exc_info[2])}"]
            text += f" ({', from '.join([*places, *causes(record.exc_info[1])])})"
        call = getattr(record, "call", "")
        return f"{text} [{call}]" if call else text
