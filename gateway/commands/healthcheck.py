"""`spillway healthcheck`: exit 0 when a gateway is ready, for containers without a shell."""

from __future__ import annotations

import argparse

import httpx

from gateway.commands import console

DEFAULT_URL = "http://127.0.0.1:8080"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("healthcheck", help="exit 0 when the gateway is ready")
    parser.add_argument("--url", default=DEFAULT_URL, help="default: %(default)s")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds, default %(default)s")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        with httpx.Client(trust_env=False, timeout=args.timeout) as client:
            status = client.get(f"{args.url.rstrip('/')}/readyz").status_code
    except httpx.HTTPError as exc:
        console.fail(f"{args.url} cannot be reached: {type(exc).__name__}")
        return 1
    if status != 200:
        console.fail(f"{args.url} is not ready: it answers {status}")
        return 1
    return 0
