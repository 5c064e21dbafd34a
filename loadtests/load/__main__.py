"""Load against one gateway: `make load ARGS="--url http://127.0.0.1:8080 --model chat"`.

    python -m loadtests.load --url URL --rate 100 200 400 --html report.html
    python -m loadtests.load --url URL --connections 1 4 16   (closed loops: the most it takes)
    python -m loadtests.load --url HOST:PORT --kind grpc --model simple --rate 100

With --rate or --trace the loop is open: Poisson arrivals, or bursty ones (--variation 3), or a
recorded trace. Latency then counts from when a call was meant to be sent. Exits with 1 when a call
failed and --allow-failures is not given.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import uvloop

from loadtests.load import arrivals, html
from loadtests.load.generator import run
from loadtests.load.messages import KINDS, Shape
from loadtests.load.plan import Plan
from loadtests.load.result import Result

_BUSY, _LATE_S = 0.8, 0.01
_OPEN_CONNECTIONS, _CLOSED_CONNECTIONS = 1024, 16


def main() -> None:
    args = _arguments().parse_args()
    results = []
    try:
        for plan in _plans(args):
            results.append(uvloop.run(run(plan)))
            if args.json:
                print(json.dumps(results[-1].as_json()), flush=True)
            else:
                print(f"{plan.label}, {plan.asked}\n{told(results[-1])}\n", flush=True)
    except (ValueError, OSError) as exc:
        sys.exit(str(exc))
    if args.html:
        html.write(args.html, [result.as_json() for result in results])
    if not args.allow_failures and any(result.failed for result in results):
        sys.exit(1)


def told(result: Result) -> str:
    """What a person wants to know first, in some lines."""
    failed = sum(result.failed.values())
    ms = result.latency.summary_ms()
    lines = [
        f"sent {result.sent}, answered {result.answered}, failed {failed}; "
        f"{result.per_s:.1f} answers/s over {result.window_s:g} s",
        "latency ms: " + ", ".join(f"{name} {value:g}" for name, value in ms.items()),
    ]
    if len(result.first_byte):
        first = result.first_byte.summary_ms()
        lines.append(
            f"first byte ms: p50 {first['p50']:g}, p99 {first['p99']:g}; {result.chunks} events"
        )
    for how, count in result.failed.most_common():
        lines.append(f"failed: {how} {count}  {result.samples.get(how, '')}")
    if result.cpu_ms is not None:
        lines.append(f"processor of the system under test: {result.cpu_ms:.3f} ms/answer")
    lines.append(
        f"generator: {result.generator_share:.0%} of a core, "
        f"late by {result.late.summary_ms()['p99']:g} ms (p99)"
    )
    if result.generator_share > _BUSY or result.late.quantile_s(0.99) > _LATE_S:
        lines.append("the generator was busy or starved itself: latencies are its own too")
    return "\n".join(lines)


def _plans(args: argparse.Namespace) -> Iterator[Plan]:
    shape = Shape(
        kind=args.kind,
        model=args.model,
        prompt_bytes=args.prompt_bytes,
        text=args.text,
        max_tokens=args.max_tokens,
        tensor=args.tensor,
        tensor_shape=tuple(args.tensor_shape),
        different=not args.same,
        path=args.path,
        headers=dict(_header(text) for text in args.header),
        seed=args.seed,
    )
    plan = Plan(
        url=args.url,
        shape=shape,
        label=args.label or args.url,
        window_s=args.seconds,
        warm_up_s=args.warm_up,
        timeout_s=args.timeout,
        pids=tuple(args.pid),
        route=args.route or None,
    )
    rates: list[float | None] = args.rate or [None] * (args.trace is not None)
    for rate in rates:
        most = args.connections[0] if args.connections else _OPEN_CONNECTIONS
        said = "the trace's own times" if rate is None else f"{rate:g}/s"
        times = _times(args, rate)
        yield replace(plan, arrivals=times, connections=most, load=said)
    for connections in () if rates else args.connections or (_CLOSED_CONNECTIONS,):
        yield replace(plan, connections=connections)


def _times(args: argparse.Namespace, rate: float | None) -> Iterator[float]:
    if args.trace is not None or rate is None:
        return arrivals.trace(args.trace, rate)
    chance = random.Random(args.seed)
    if args.variation == 1:
        return arrivals.poisson(rate, chance)
    if args.variation == 0:
        return arrivals.steady(rate)
    return arrivals.bursty(rate, args.variation, chance)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise ValueError(f"--header {text}: must be 'name: value'")
    return name.strip(), os.path.expandvars(value.strip())


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--url", required=True, help="http://host:port, or host:port with --kind grpc")
    add("--kind", choices=KINDS, default="chat")
    add("--model", default="echo")
    add("--rate", type=float, nargs="+", help="calls per second, a run for each: the loop is open")
    add("--variation", type=float, default=1.0, help="of the gaps: 1 Poisson, 3 bursts, 0 steady")
    add("--trace", type=Path, help="CSV of arrival times; --rate stretches it to a mean rate")
    add("--connections", type=int, nargs="+", help="closed: a run each; open: the most")
    add("--seconds", type=float, default=10.0, help="measured")
    add("--warm-up", type=float, default=2.0, help="seconds before that")
    add("--timeout", type=float, default=30.0, help="seconds until a call counts as failed")
    add("--prompt-bytes", type=int, default=2048)
    add("--text", default="", help="before the words of each prompt: something to be found")
    add("--max-tokens", type=int, default=100)
    add("--same", action="store_true", help="every prompt the same; else each is different")
    add("--tensor", default="INPUT", help="name of the one FP32 input (v2-*, grpc)")
    add("--tensor-shape", type=int, nargs="+", default=[1, 16])
    add("--path", help="instead of the protocol's own")
    add("--header", action="append", default=[], help="'name: value'; $NAME is of the environment")
    add("--route", default="x-spillway-zone", help="header counted by the second; '' for none")
    add("--pid", type=int, nargs="+", default=[], help="of the system under test, for its cost")
    add("--label", help="names the run in reports")
    add("--seed", type=int, default=0)
    add("--html", type=Path, help="write a report here")
    add("--json", action="store_true", help="print each result as one line of JSON")
    add("--allow-failures", action="store_true", help="exit with 0 all the same")
    return parser


if __name__ == "__main__":
    main()
