"""One process that reads documents: a library that reads strangers' files may be led to anything.

It is confined as a scan worker is, and may have so much memory and no open file but its own.
"""

from __future__ import annotations

import base64
import resource
import sys
from typing import Any

from gateway.classify.scan_workers import frames
from gateway.classify.scan_workers.worker import answer, confine, private_pipes
from gateway.classify.text.documents import LARGE, Room, Unread

MOST_MEMORY = 3 << 30
"""Bytes of address space: ONNX Runtime maps a third of it before it reads anything."""


def main() -> None:
    """`PARENT_PID`."""
    jobs, answers = private_pipes()
    confine(int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))  # guard: K1.memory
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    frames.read(jobs)
    try:
        from gateway.classify.text.documents import canary, reading  # the packages of the extra
    except ImportError as absent:
        answer(answers, frames.pack({"absent": absent.name}))
        return
    missed = canary.missed()
    answer(answers, frames.pack({"missed": missed}))
    while not missed and (job := frames.read(jobs)) is not None:
        answer(answers, frames.pack(_read(reading.read, job)))


def _read(read: Any, job: dict[str, Any]) -> dict[str, Any]:
    room = Room(job["characters"])
    room.texts.append(job["filename"])
    try:
        read(base64.b64decode(job["base64"], validate=True), job["media_type"], room)
    except Unread as unread:
        return {"unread": unread.reason}
    except (MemoryError, RecursionError):
        return {"unread": LARGE}
    except Exception as failure:  # noqa: BLE001 - restricts the call; the message may hold content
        return {"failed": type(failure).__name__}
    return {"texts": room.texts}


if __name__ == "__main__":
    main()
