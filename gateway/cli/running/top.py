"""`spillway top`: what a running gateway does now, in a terminal."""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from dataclasses import asdict

import httpx
from rich.console import RenderableType
from rich.live import Live

from gateway.app.top import screen
from gateway.app.top.readings import GatewayReading, ReadingDelta, TopFigures, now
from gateway.cli import console
from gateway.cli.running.gateway_url import DEFAULT_URL, add_tls, tls_context
from gateway.config import ConfigError
from gateway.core import ambient
from gateway.core.errors import GatewayError
from gateway.protocols import strictjson

_OVER = 10  # intervals; percentiles of a single second jump


class GatewayUnreachable(Exception):
    """The gateway told nothing this time; the message says why."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("top", help="watch a running gateway")
    parser.add_argument("--url", default=DEFAULT_URL, help="default: %(default)s")
    parser.add_argument(
        "--key-env", default="SPILLWAY_KEY", metavar="NAME",
        help="the variable with a key of the gateway, if it has any; default: %(default)s",
    )  # fmt: skip
    parser.add_argument("--interval", type=float, default=1.0, help="seconds, default %(default)s")
    parser.add_argument("--once", action="store_true", help="one page, after one interval")
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead")
    add_tls(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if not 0.1 <= args.interval <= 3600:
        raise ConfigError("--interval: 0.1 to 3600 seconds")
    key = os.environ.get(args.key_env, "")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(
        base_url=args.url,
        headers=headers,
        trust_env=False,
        timeout=max(2.0, args.interval),
        verify=tls_context(args),
    ) as client:
        try:
            return _watch(client, args)
        except GatewayUnreachable as exc:
            console.fail(f"{args.url}: {exc}")
            return 1


def _watch(client: httpx.Client, args: argparse.Namespace) -> int:
    """The first answer has to come; after it, one that fails to is said and waited for."""
    readings = deque([_read(client)], maxlen=_OVER + 1)
    if args.once or args.json:
        while True:
            time.sleep(args.interval)
            readings.append(_read(client))
            shown = now(ReadingDelta(readings[0], readings[-1]))
            if args.json:
                console.put_json_line(_plain(shown))
            else:
                console.out.print(screen.page(args.url, shown))
            if args.once:
                return 0
    with Live(screen.page(args.url, None), console=console.out, screen=True) as live:
        while True:
            time.sleep(args.interval)
            live.update(_next(client, args.url, readings))


def _next(client: httpx.Client, url: str, readings: deque[GatewayReading]) -> RenderableType:
    why = ""
    try:
        readings.append(_read(client))
    except GatewayUnreachable as exc:
        why = str(exc)
    silent_s = ambient.monotonic_s() - readings[-1].at_s if why else 0.0
    shown = now(ReadingDelta(readings[0], readings[-1])) if len(readings) > 1 else None
    return screen.page(url, shown, silent_s, why)


def _read(client: httpx.Client) -> GatewayReading:
    try:
        metrics, status = client.get("/metrics"), client.get("/status")
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        why = f"no gateway answers there ({type(exc).__name__}); start one, or name its --url"
        raise GatewayUnreachable(why) from None
    for answer in (metrics, status):
        if answer.status_code == 401:
            raise GatewayUnreachable("wants a key: put one into the variable that --key-env names")
        if answer.status_code != 200:
            raise GatewayUnreachable(f"answers {answer.status_code} to {answer.request.url.path}")
    try:
        document = strictjson.load_object(status.content, 32)
        return GatewayReading.parse(ambient.monotonic_s(), metrics.text, document)
    except (GatewayError, ValueError, LookupError, TypeError, AttributeError):
        raise GatewayUnreachable(
            "is no gateway of this version: its answer makes no sense"
        ) from None


def _plain(shown: TopFigures) -> dict[str, object]:
    per_s = {f"{s} {end}": round(rate, 3) for (s, end), rate in shown.per_s.items()}
    return {**asdict(shown), "per_s": per_s}
