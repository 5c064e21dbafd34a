"""Compiles a gate in a process of its own: needs on standard input, the dump on standard output.

Compiling keeps a processor busy for ten seconds and more, most of it under the interpreter's lock,
and calls are served meanwhile.
"""

from __future__ import annotations

import os
import sys

import orjson

from gateway.classify.gate.armed import dump
from gateway.classify.gate.gate import Gate
from gateway.classify.gate.needs import Needs

_NICE = 10


def main() -> int:
    os.nice(_NICE)
    gate = Gate.of(Needs.of(orjson.loads(sys.stdin.buffer.read())))
    if gate is None:
        return 1
    sys.stdout.buffer.write(dump(gate))
    return 0


if __name__ == "__main__":
    sys.exit(main())
