"""`spillway simulate`: what the decision, and simpler ones, would have done with a trace."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from gateway.commands import console
from gateway.simulate import report
from gateway.simulate.capacity import Prices, Size, sizes
from gateway.simulate.loop import World
from gateway.simulate.records import read_records
from gateway.simulate.study import NAMES, Figures, Run, simulate
from gateway.simulate.workload import MODES, TraceError, Workload, build, read_trace

_LOAD = 1.5
_MISSING = "needs {}; install it with: pip install 'spillway-gateway[simulate]'"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "simulate",
        help="what the decision would have done with recorded arrivals",
        description="Drive the gateway's own decision on a virtual clock and compare it with "
        "simpler policies and with the best that anyone could have done.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--trace", type=Path, metavar="FILE", help="CSV: seconds, input tokens, output tokens"
    )
    source.add_argument(
        "--records", type=Path, metavar="FILE", help="decision records of a gateway (JSON lines)"
    )
    parser.add_argument(
        "--load", type=_positive, metavar="X",
        help="offered GPU time over capacity, to which time is compressed "
        f"(default: {_LOAD} for a trace, records as they came)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--mode", choices=sorted(MODES), default="ms",
        help="batches of milliseconds or of seconds (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--replicas", type=_count, default=1, metavar="R",
        help="gateways; one owns the servers, the others forward to it (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--servers", type=_count, metavar="N", help="another number of servers, same arrivals"
    )
    parser.add_argument(
        "--hop-ms", type=_not_negative, default=0.5, metavar="MS",
        help="between two gateways, one way (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--network-ms", type=_not_negative, default=0.0, metavar="MS",
        help="between the gateway and its servers, one way (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", choices=NAMES, metavar="POLICY",
        help=f"simulate only this one; may be repeated. One of: {', '.join(NAMES)}",
    )  # fmt: skip
    parser.add_argument("--no-bound", action="store_true", help="without the bound, so no regret")
    parser.add_argument(
        "--sweep", type=_count, metavar="N", help="also 1 to N servers: what each number costs"
    )
    parser.add_argument(
        "--gpu-usd-per-hour", type=_not_negative, default=3.0, metavar="USD",
        help="what one server costs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--cloud-call-usd", type=_not_negative, default=0.002, metavar="USD",
        help="what the mean call costs in the cloud (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
    parser.add_argument("--png", type=Path, metavar="FILE", help="write the plots as a picture")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        calls = _workload(args)
    except TraceError as exc:
        console.fail(str(exc))
        return 2
    settings = Run(
        world=World(
            gateways=args.replicas,
            hop_s=args.hop_ms / 1000,
            network_s=args.network_ms / 1000,
            seed=args.seed,
        ),
        lead_s=None if args.network_ms else 0.0,
    )
    try:
        with console.progress() as tell:
            found = _compare(args, calls, settings, tell)
            swept = _sweep(args, calls, settings, tell)
            _write(args, found, swept)
    except ModuleNotFoundError as exc:
        console.fail("this " + _MISSING.format(exc.name))
        return 1
    except OSError as exc:
        console.fail(f"{exc.filename}: {exc.strerror}")
        return 1
    _print(args, found, swept)
    return 0


def _workload(args: argparse.Namespace) -> Workload:
    mode = MODES[args.mode]
    if args.records is not None:
        return read_records(args.records, mode, args.seed, args.load, args.servers or 0)
    trace = read_trace(args.trace)
    return build(trace, mode, args.load or _LOAD, args.seed, args.servers or 0)


def _compare(
    args: argparse.Namespace, calls: Workload, settings: Run, tell: Callable[[str], None]
) -> dict[str, Figures]:
    least = None
    if not args.no_bound:
        # scipy takes a second to import and comes with an extra.
        from gateway.simulate.bound import least_cost

        tell(f"the bound for {len(calls)} calls")
        least = least_cost(calls)
    found = {}
    for name in args.only or NAMES:
        tell(f"{name}: {len(calls)} calls")
        found[name] = simulate(calls, name, least, settings)
    return found


def _sweep(
    args: argparse.Namespace, calls: Workload, settings: Run, tell: Callable[[str], None]
) -> list[Size]:
    found: list[Size] = []
    if args.sweep:
        prices = Prices(args.gpu_usd_per_hour, args.cloud_call_usd)
        tell("1 server")
        for size in sizes(calls, range(1, args.sweep + 1), prices, settings):
            found.append(size)
            tell(f"{size.servers} of {args.sweep} servers")
    return found


def _write(args: argparse.Namespace, found: dict[str, Figures], swept: list[Size]) -> None:
    source = args.trace or args.records
    if args.html is not None:
        load = "as recorded" if args.records and not args.load else f"{args.load or _LOAD:g}"
        title = f"{source.name}, {args.mode} mode, load {load}, seed {args.seed}"
        report.write_html(args.html, title, found, swept)
    if args.png is not None:
        report.write_png(args.png, found, swept)


def _print(args: argparse.Namespace, found: dict[str, Figures], swept: list[Size]) -> None:
    if args.json:
        answer = report.as_json(found)
        if swept:
            answer["servers"] = report.sizes_as_json(swept)
        console.put_json(answer)
        return
    print(report.table(found))
    if swept:
        print("\n" + report.size_table(swept))


def _positive(text: str) -> float:
    value = _not_negative(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _not_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 0 or more")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10,000")
    return int(text)
