"""`spillway healthcheck`: exit 0 when a gateway is ready, for containers without a shell."""

from __future__ import annotations

import argparse
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gateway import premises
from gateway.commands import console
from gateway.config import ConfigError
from gateway.tls import TlsFiles, of_client

DEFAULT_URL = "http://127.0.0.1:8080"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "healthcheck",
        help="exit 0 when the gateway is ready",
        description="For orchestrators: asks /readyz of a running gateway. Exit codes: 0 it takes "
        "calls, 1 it does not, or does not answer.",
    )
    parser.add_argument("--url", default=DEFAULT_URL, help="default: %(default)s")
    parser.add_argument(
        "--timeout", type=float, default=3.0, metavar="S", help="seconds, default %(default)s"
    )
    parser.add_argument("--ca-file", type=Path, help="whose certificate an https gateway must show")
    parser.add_argument("--cert-file", type=Path, help="the one to show it, if it asks for one")
    parser.add_argument("--key-file", type=Path, help="its key")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        with httpx.Client(trust_env=False, timeout=args.timeout, verify=_tls(args)) as client:
            status = client.get(f"{args.url.rstrip('/')}/readyz").status_code
    except httpx.HTTPError as exc:
        console.fail(console.unreachable(args.url, exc))
        return 1
    if status != 200:
        console.fail(f"{args.url} is not ready: it answers {status}")
        return 1
    return 0


def _tls(args: argparse.Namespace) -> ssl.SSLContext:
    """Without a CA a gateway on the loopback is taken at its word: nothing is told to it, and all
    that it could feign is being ready."""
    if (args.cert_file is None) != (args.key_file is None):
        raise ConfigError("--cert-file, --key-file: go together")
    context = of_client(TlsFiles("healthcheck", args.cert_file, args.key_file, args.ca_file))
    if args.ca_file is None and premises.is_loopback(urlsplit(args.url).hostname or ""):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
