"""Spillway beside other gateways, in front of one backend, in turns: `make peers`.

    python -m loadtests.peers --only spillway_inspected,nginx --seconds 3 --rounds 1

Peers are installed from the public registries into --environments, once. One that cannot be
installed or started here is reported as absent, with the reason. With --json the last line is one
JSON object, by peer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop

from loadtests.load import html, mixed
from loadtests.load.messages import RecordedCall, recorded_calls
from loadtests.peers import (
    Absent,
    Peer,
    Running,
    Site,
    litellm,
    nginx,
    portkey,
    routers,
    spillway,
    table,
)
from loadtests.peers.process import Process
from loadtests.peers.rounds import PHASES, Effort, measure
from loadtests.ports import free_port

_CALLS = 5_000  # of the phase mixed in each round
_GAP_MS = 1.0  # between the chunks of a stream, so that they arrive one by one


def catalogue(before: Path | None = None) -> list[Peer]:
    """`before` is another checkout of Spillway, measured beside this one."""
    return [
        *spillway.peers(before),
        nginx.Nginx(),
        *routers.peers(),
        portkey.Portkey(),
        *litellm.peers(),
    ]


def main() -> None:
    args = _arguments().parse_args()
    peers = {peer.name: peer for peer in catalogue(args.before)}
    chosen = args.only.split(",") if args.only else list(peers)
    if unknown := [name for name in chosen if name not in peers]:
        sys.exit(f"no peer {', '.join(unknown)}; there is {', '.join(peers)}")
    phases = args.phases.split(",")
    if wrong := [phase for phase in phases if phase not in PHASES]:
        sys.exit(f"no phase {', '.join(wrong)}; there is {', '.join(PHASES)}")
    try:
        calls = recorded_calls(args.calls) if args.calls else _mixed_calls(args.rounds, phases)
    except (OSError, ValueError) as exc:
        sys.exit(f"--calls: {exc}")
    with tempfile.TemporaryDirectory(prefix="spillway-peers-", dir=args.scratch) as scratch:
        _run(
            [peers[name] for name in chosen],
            Effort(args.rounds, args.seconds, phases, calls=calls),
            args,
            Path(scratch),
        )


def _mixed_calls(rounds: int, phases: Sequence[str]) -> list[RecordedCall]:
    if "mixed" not in phases:
        return []
    made = mixed.calls(_CALLS * rounds, seed=1)
    return [RecordedCall(call["headers"], call["body"]) for call in made]


def _run(peers: Sequence[Peer], effort: Effort, args: argparse.Namespace, scratch: Path) -> None:
    site = Site(free_port(), free_port(), args.environments.resolve(), scratch)
    ports = ("--port", str(site.http_port), "--grpc-port", str(site.grpc_port))
    backend = Process(
        [sys.executable, "-m", "loadtests.echo", *ports, "--gap-ms", str(_GAP_MS)],
        scratch / "backend.log",
        cores=args.others_on,
    )
    if args.others_on:
        os.sched_setaffinity(0, args.others_on)
    started: list[Peer] = []
    absent: dict[str, str] = {}
    try:
        backend.await_answer(site.http_port, "/health", 20)
        direct = Running((backend.pid,), site.url, site.url, f"127.0.0.1:{site.grpc_port}")
        running = {table.DIRECT: direct}
        for peer in peers:
            _tell(f"starting {peer.name}")
            started.append(peer)
            try:
                running[peer.name] = peer.start(site)
            except Absent as exc:
                absent[peer.name] = str(exc)
                continue
            for pid in running[peer.name].pids if args.peers_on else ():
                os.sched_setaffinity(pid, args.peers_on)
        measured = uvloop.run(measure(running, effort, _tell))
    finally:
        for peer in started:
            peer.stop()
        backend.stop()
    print(table.as_text(measured, absent, {peer.name: peer.note for peer in peers}))
    if args.html:
        documents = [
            {**result.as_json(), "label": name}
            for name, each in measured.items()
            for phase, result in each.last.items()
            if phase in ("chat", "open", "single")
        ]
        html.write(args.html, documents, "Gateways in front of one backend")
    if args.json:
        print(json.dumps(table.as_json(measured, absent)))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", help="names with commas between; all when absent")
    add("--rounds", type=int, default=3)
    add("--seconds", type=float, default=5.0, help="of each phase of a round, warm-up apart")
    add("--phases", default=",".join(PHASES), help=f"of {', '.join(PHASES)}")
    add(
        "--calls",
        type=Path,
        help="chats for the phase mixed, as loadtests.load.mixed makes them; else it makes some",
    )
    add("--before", type=Path, help="another checkout, whose source is peer spillway_before")
    add("--environments", type=Path, default=Path("var/peers"), help="where peers are installed")
    add(
        "--scratch",
        type=Path,
        help="of the records; /dev/shm waits for no disk",
    )
    add("--peers-on", type=int, nargs="+", default=[], help="cores that the peers may use")
    add("--others-on", type=int, nargs="+", default=[], help="those of generator and backend")
    add("--html", type=Path, help="write a report of the last round here")
    add("--json", action="store_true", help="end with the figures as one line of JSON")
    return parser


if __name__ == "__main__":
    main()
