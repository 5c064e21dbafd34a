"""Compiles a gate in a process of its own: needs on standard input, the dump on standard output,
how nice it is to others as its argument.

Compiling keeps a processor busy for ten seconds and more, most of it under the interpreter's lock,
and calls are served meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import orjson

from gateway.classify.gate.armed import dump
from gateway.classify.gate.gate import Gate
from gateway.classify.gate.needs import Needs

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> int:
    os.nice(int(sys.argv[1]))
    _end_with_parent()
    request = sys.stdin.buffer.read()
    gate = Gate.from_needs(Needs.unpack(orjson.loads(request))) if request else None
    if gate is None:
        return 1
    sys.stdout.buffer.write(dump(gate))
    return 0


def _end_with_parent() -> None:
    """Nobody would read the dump. A parent that died before this leaves nothing on the input."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
