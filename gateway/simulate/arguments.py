"""What `spillway simulate` can be asked."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Final

from gateway.simulate.study import NAMES
from gateway.simulate.weather import OutagePeriod, SlowSpell
from gateway.simulate.workload import MODES

LOAD: Final = 1.5
STATED_NETWORK_MS: Final = 0.5  # what a gateway takes for granted until it has measured


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--trace", type=Path, metavar="FILE", help="CSV: seconds, input tokens, output tokens"
    )
    source.add_argument(
        "--records", type=Path, metavar="PATH", help="the audit of a gateway, or records in a file"
    )
    parser.add_argument(
        "--load", type=_positive, metavar="X",
        help="offered GPU time over capacity, to which time is compressed "
        f"(default: {LOAD} for a trace, records as they came)",
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
        "--network-ms", type=_not_negative, metavar="MS",
        help="between the gateway and its servers, one way "
        f"(default: 0, with --config {STATED_NETWORK_MS})",
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
        "--cloud-call-usd", type=_positive, metavar="USD",
        help="what the mean call costs in the cloud, where neither settings nor records say "
        "(default: 0.002)",
    )  # fmt: skip
    _add_cloud(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
    parser.add_argument("--png", type=Path, metavar="FILE", help="write the plots as a picture")


def _add_cloud(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="settings whose policy, margins, prices and penalties are simulated",
    )  # fmt: skip
    parser.add_argument(
        "--model", metavar="NAME",
        help="the model of the settings (default: the only one that has a cloud endpoint)",
    )  # fmt: skip
    parser.add_argument(
        "--cloud-limit", type=_count, metavar="N",
        help="the cloud takes so many calls at once; one more gets 429",
    )  # fmt: skip
    parser.add_argument(
        "--cloud-retry-after", type=_not_negative, default=1.0, metavar="S",
        help="seconds, as its 429 says (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--cloud-outage", type=_outage, action="append", default=[], metavar="FROM-TO[:hangs]",
        help="seconds from the first arrival in which its calls fail, or hang; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--cloud-slow", type=_slow, action="append", default=[], metavar="FROM-TO*FACTOR",
        help="seconds in which it takes so many times longer; may be repeated",
    )  # fmt: skip


def _outage(text: str) -> OutagePeriod:
    span, _, kind = text.partition(":")
    if kind not in ("", "hangs"):
        raise argparse.ArgumentTypeError(f"{kind!r}: calls fail, or with ':hangs' they hang")
    return OutagePeriod(*_span(span), hangs=kind == "hangs")


def _slow(text: str) -> SlowSpell:
    span, star, factor = text.partition("*")
    if not star:
        raise argparse.ArgumentTypeError(f"{text!r} does not say how much slower: FROM-TO*FACTOR")
    return SlowSpell(*_span(span), factor=_positive(factor))


def _span(text: str) -> tuple[float, float]:
    begins, _, ends = text.partition("-")
    from_s, to_s = _not_negative(begins), _not_negative(ends)
    if from_s >= to_s:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return from_s, to_s


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10,000")
    return int(text)


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
