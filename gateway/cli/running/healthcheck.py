"""`spillway healthcheck`: exit 0 when a gateway is ready, for containers without a shell."""

from __future__ import annotations

import argparse
import os

import httpx

from gateway.cli import console
from gateway.cli.running.gateway_url import DEFAULT_URL, add_tls, trusting_loopback

_VARIABLE = "SPILLWAY_HEALTHCHECK_"
_ENDS_AT_ONCE = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""What a listener that speaks TLS makes of a client that does not."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "healthcheck",
        help="exit 0 when the gateway is ready",
        description="For orchestrators: asks /readyz of a running gateway. Exit codes: 0 it takes "
        "calls, 1 it does not, or does not answer. Each option but the last can be given as a "
        f"variable, as {_VARIABLE}CA_FILE.",
    )
    parser.add_argument(
        "--url", default=_variable("URL"),
        help=f"default: {DEFAULT_URL}; one without http:// or https:// is spoken to as it speaks",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=float, default=3.0, metavar="S", help="seconds, default %(default)s"
    )
    add_tls(parser, _variable)
    parser.add_argument(
        "--onprem", action="store_true",
        help="ask whether restricted calls have a place as well: /readyz/onprem",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    url = (args.url or DEFAULT_URL.removeprefix("http://")).rstrip("/")
    urls = [url] if "://" in url else [f"http://{url}", f"https://{url}"]
    path = "/readyz/onprem" if args.onprem else "/readyz"
    for url in urls:
        verify = trusting_loopback(args, url)
        try:
            with httpx.Client(trust_env=False, timeout=args.timeout, verify=verify) as client:
                status = client.get(url + path).status_code
        except _ENDS_AT_ONCE as exc:
            if url is urls[-1]:
                console.fail(console.unreachable(url, exc))
        except httpx.HTTPError as exc:
            console.fail(console.unreachable(url, exc))
            break
        else:
            if status == 200:
                return 0
            console.fail(f"{url} is not ready: it answers {status}")
            break
    return 1


def _variable(option: str) -> str | None:
    return os.environ.get(_VARIABLE + option.replace("-", "_").upper()) or None
