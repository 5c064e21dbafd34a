"""What a call costs inside a running gateway, counted and not timed: the same on a noisy machine.

    python -m loadtests.bench.live [--model inspected] [--kind chat] [--calls 100] [--top 60]
    python -m loadtests.bench.live --model onprem --text "card 4111 1111 1111 1111 "
    python -m loadtests.bench.live --recorded FILE     # chats of `loadtests.load.mixed`
    python -m loadtests.bench.live --instructions      # needs valgrind

Without --instructions: the bytecodes and the calls of Python functions that the gateway's loop
executes for one call, by file and by function. With it: the machine's instructions in user space,
for each thread, as callgrind counts them; what the kernel does for a call is not in them. Calls
come over 4 connections unless told, all prompts differ, and an echo answers (`loadtests.echo`).
More connections show what calls cost that wait for each other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import grpc.aio

from loadtests import build
from loadtests.load.messages import Messages, Shape, messages, recorded_calls
from loadtests.peers import Running, Site
from loadtests.peers.process import Process
from loadtests.peers.spillway import Spillway
from loadtests.ports import free_port

_WARM_UP = 40  # calls
_SETTLES_S = 0.5  # what goes on behind the last answer
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_INFER = "/inference.GRPCInferenceService/ModelInfer"
_LEAST = 0.01  # of all instructions: a thread with less is not shown


class Function(TypedDict):
    """What one call does in a function."""

    function: str  # file:line name
    calls: float
    bytecodes: float


def parser(description: str) -> argparse.ArgumentParser:
    """Which calls, and how many of them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", default="inspected", help="inspected, public or onprem")
    parser.add_argument("--kind", default="chat", help="chat, stream, v2-json, v2-binary or grpc")
    parser.add_argument("--text", default="", help="in each prompt: a value that is found")
    parser.add_argument("--recorded", type=Path, help="chats of `loadtests.load.mixed`")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--connections", type=int, default=4, help="each with a call at a time")
    parser.add_argument("--gap-ms", type=float, default=0.0, help="between chunks of a stream")
    build.add_choice(parser)
    parser.add_argument("--json", action="store_true")
    return parser


def main() -> None:
    options = parser(__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--top", type=int, default=60, help="so many functions are listed")
    options.add_argument("--instructions", action="store_true")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        counted = (_instructions if args.instructions else bytecodes)(args, Path(scratch))
    print(json.dumps(counted) if args.json else _table(counted, args.top))


def bytecodes(args: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Those of one call, by file and by function, and how often it enters each function."""
    counts = scratch / "counts"
    with _Gateway(args, scratch, [*_python("loadtests.bench.traced"), str(counts)]) as gateway:
        gateway.calls(_WARM_UP)
        gateway.signal(signal.SIGUSR1)
        gateway.calls(args.calls)
        time.sleep(_SETTLES_S)
        gateway.signal(signal.SIGUSR2)
        while not counts.exists():
            time.sleep(0.05)
    found = json.loads(counts.read_text())
    files: Counter[str] = Counter()
    for file, _, _, _, count in found:
        files[_short(file)] += count
    return {
        "bytecodes": sum(f[4] for f in found) / args.calls,
        "calls": sum(f[3] for f in found) / args.calls,
        "files": {name: count / args.calls for name, count in files.most_common()},
        "functions": [
            {
                "function": f"{_short(file)}:{line} {name}",
                "calls": calls / args.calls,
                "bytecodes": count / args.calls,
            }
            for file, line, name, calls, count in sorted(found, key=lambda f: -f[4])
        ],
    }


def _instructions(args: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    out = scratch / "callgrind"
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"]
    command = [*valgrind, f"--callgrind-out-file={out}", *_python("gateway")]
    with _Gateway(args, scratch, command) as gateway:
        gateway.calls(_WARM_UP)
        gateway.control("-i", "on")
        gateway.calls(args.calls)
        time.sleep(_SETTLES_S)
        gateway.control("-i", "off")
        gateway.control("-d")
    threads = {}
    for path in sorted(scratch.glob("callgrind.1-*")):
        total = _TOTALS.search(path.read_text())
        threads[f"thread {int(path.name[-2:])}"] = int(total[1]) / args.calls if total else 0.0
    whole = sum(threads.values())
    shown = {name: count for name, count in threads.items() if count >= _LEAST * whole}
    return {"instructions": whole, "threads": shown}


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def _short(file: str) -> str:
    return file.split("site-packages/")[-1].split("/gateway/")[-1].split("/lib/")[-1]


def _table(counted: dict[str, Any], top: int) -> str:
    if "threads" in counted:
        lines = [f"{n / 1e3:12,.0f} k  {name}" for name, n in counted["threads"].items()]
        return "\n".join([*lines, f"{counted['instructions'] / 1e3:12,.0f} k  instructions a call"])
    lines = [f"{n:10,.1f}  {name}" for name, n in counted["files"].items() if n >= 1]
    lines += ["", " bytecodes     calls"]
    lines += [
        f"{f['bytecodes']:10,.1f}{f['calls']:10,.2f}  {f['function']}"
        for f in counted["functions"][:top]
    ]
    return "\n".join(
        [*lines, f"{counted['bytecodes']:10,.0f}{counted['calls']:10,.0f}  all, for one call"]
    )


class _Gateway:
    """One that runs by `command`, and the calls that it is sent."""

    def __init__(self, args: argparse.Namespace, scratch: Path, command: Sequence[str]) -> None:
        self._args, self._scratch = args, scratch
        self._spillway = Spillway(
            "gateway", args.model, "", tensors=True, command=command, compiled=args.compiled
        )

    def __enter__(self) -> _Gateway:
        port, grpc_port = free_port(), free_port()
        echo = [*_python("loadtests.echo"), "--port", str(port), "--grpc-port", str(grpc_port)]
        echo += ["--chunks", "100", "--gap-ms", str(self._args.gap_ms)]
        self._echo = Process(echo, self._scratch / "echo.log")
        site = Site(port, grpc_port, self._scratch, self._scratch)
        self._running = self._spillway.start(site)
        self._authority = (self._running.chat_url or "").removeprefix("http://")
        self._messages = self._source(self._running)
        return self

    def __exit__(self, *_: object) -> None:
        self._spillway.stop()
        self._echo.stop()

    def _source(self, at: Running) -> Messages:
        model = {"chat": at.chat_model, "stream": at.chat_model, "grpc": at.grpc_model}.get(
            self._args.kind, at.v2_model
        )
        recorded = recorded_calls(self._args.recorded) if self._args.recorded else []
        shape = Shape(
            kind=self._args.kind,
            model=model,
            text=self._args.text,
            headers=at.headers,
            calls=recorded,
        )
        return messages(shape, self._authority)

    def calls(self, count: int) -> None:
        asyncio.run(self._grpc_calls(count) if self._args.kind == "grpc" else self._calls(count))

    async def _grpc_calls(self, count: int) -> None:
        left = [self._messages.next() for _ in range(count)]
        headers = tuple(self._running.headers.items())

        async def some() -> None:
            async with grpc.aio.insecure_channel(self._running.grpc_target or "") as opened:
                channel: Any = opened  # its stubs ask for serialisers
                infer = channel.unary_unary(_INFER)
                while left:
                    await infer(left.pop(), metadata=headers)

        await asyncio.gather(*(some() for _ in range(self._args.connections)))

    async def _calls(self, count: int) -> None:
        host, _, port = self._authority.partition(":")
        left = [self._messages.next() for _ in range(count)]

        async def some() -> None:
            reader, writer = await asyncio.open_connection(host, int(port))
            while left:
                writer.write(left.pop())
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200"):
                    sys.exit(f"the gateway answered {head[:60]!r}")
                if length := _LENGTH.search(head):
                    await reader.readexactly(int(length[1]))
                else:
                    await reader.readuntil(b"\r\n0\r\n\r\n")
            writer.close()

        await asyncio.gather(*(some() for _ in range(self._args.connections)))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._running.pids[0], number)
        time.sleep(_SETTLES_S)

    def control(self, *asked: str) -> None:
        pid = str(self._running.pids[0])
        subprocess.run(["callgrind_control", *asked, pid], check=True, capture_output=True)


if __name__ == "__main__":
    main()
