"""A gateway that counts what its loop executes, bytecode by bytecode: run by `live.py`.

    python -m loadtests.bench.traced COUNTS serve --config ...

It counts from SIGUSR1 to SIGUSR2 and then writes COUNTS: for each function its file, line, name,
calls and bytecodes.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import socket
from types import CodeType, FrameType
from typing import Any

from gateway.__main__ import main
from gateway.protocols.http import server


class Counts:
    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.bytecodes: Counter[CodeType] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Counts:
        if event == "call":
            self.calls[frame.f_code] += 1
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self.bytecodes[frame.f_code] += 1
        return self

    def write(self, path: Path) -> None:
        generated = dict(_generated(object))
        told = [
            [
                code.co_filename,
                code.co_firstlineno,
                generated.get(code, code.co_qualname),
                self.calls[code],
                count,
            ]
            for code, count in self.bytecodes.items()
        ]
        part = path.with_suffix(".part")
        part.write_text(json.dumps(told))
        part.replace(path)


def _generated(base: type) -> Iterator[tuple[CodeType, str]]:
    """Code that `dataclass` and `NamedTuple` made, with the name of its class."""
    made: type
    for made in type.__subclasses__(base):
        for name in ("__init__", "__new__", "__hash__", "__eq__"):
            code = getattr(vars(made).get(name), "__code__", None)
            if isinstance(code, CodeType) and code.co_filename.startswith("<"):
                yield code, f"{made.__qualname__}.{name}"
        yield from _generated(made)


class _Traced(server.HttpServer):
    counts: Path

    async def start(self, sockets: Sequence[socket]) -> None:
        loop, counts = asyncio.get_running_loop(), Counts()

        def stop() -> None:
            sys.settrace(None)
            counts.write(self.counts)

        loop.add_signal_handler(signal.SIGUSR1, sys.settrace, counts)
        loop.add_signal_handler(signal.SIGUSR2, stop)
        await super().start(sockets)


if __name__ == "__main__":
    _Traced.counts = Path(sys.argv[1])
    server.HttpServer = _Traced  # type: ignore[misc]
    sys.exit(main(sys.argv[2:]))
