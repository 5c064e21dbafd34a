"""`spillway explain FILE`: what would be done with a call, and why; nothing is sent on (O3).

FILE holds `{"path": "/v1/chat/completions", "headers": {...}, "body": {...}}`. With `--url` a
running gateway explains from its live state. Without, a gateway of the settings does, every
endpoint up and idle.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any

import httpx

from gateway.app.gateway import Gateway
from gateway.cli import console
from gateway.cli.running.gateway_url import add_tls, tls_context
from gateway.config import Settings
from gateway.core.errors import GatewayError
from gateway.protocols import strictjson
from gateway.server import ops


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="tell where a call would go, and why",
        description="Reads the call and decides on it, and sends it nowhere. Without --url every "
        "endpoint of the settings is taken to be up and free; a running gateway knows better.",
        epilog='Such as: echo \'{"path": "/v1/chat/completions", "body": {"model": "scribe", '
        '"messages": [{"role": "user", "content": "hello"}]}}\' | spillway explain -',
    )
    parser.add_argument("file", help='{"path", "headers", "body"} as JSON; - for stdin')
    console.add_config(parser)
    parser.add_argument("--url", help="ask this running gateway instead")
    parser.add_argument("--key", help="a caller's key, with --url")
    add_tls(parser)
    parser.add_argument("--json", action="store_true", help="the whole trace as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        raw = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
    except OSError as exc:
        console.fail(f"{args.file}: {exc.strerror}")
        return 2
    try:
        document = strictjson.load_object(raw, 66)
        if args.url:
            trace = _ask(args.url, args.key, raw, tls_context(args))
        else:
            trace = asyncio.run(_explain(console.load_settings(args.config), document))
    except GatewayError as refused:
        console.fail(f"{args.file}: {refused.message} ({refused.reason})")
        return 2
    if args.json:
        console.put_json(trace)
    else:
        _print_trace(trace)
    return 0


def _ask(url: str, key: str | None, raw: bytes, tls: ssl.SSLContext) -> dict[str, Any]:
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    try:
        with httpx.Client(trust_env=False, timeout=30, verify=tls) as client:
            answer = client.post(
                f"{url.rstrip('/')}/spillway/explain", content=raw, headers=headers
            )
    except httpx.HTTPError as exc:
        raise GatewayError(console.unreachable(url, exc)) from None
    document = strictjson.load_object(answer.content)
    if answer.status_code != 200:
        raise GatewayError(str(document.get("error")), reason=str(document.get("reason")))
    return document


async def _explain(settings: Settings, document: dict[str, Any]) -> dict[str, Any]:
    gateway = Gateway(settings)
    async with gateway.idle():
        request = ops.described(document, gateway.core.services)
        return ops.explanation(await gateway.core.pipeline.explain(request))


def _print_trace(trace: dict[str, Any]) -> None:
    put = console.err.print
    entities = ", ".join(f"{n} {t}" for t, n in trace["entities"].items()) or "none"
    put(f"[bold]{trace['sensitivity']}[/] ({trace['classify_reason']}); findings: {entities}")
    vetoes = trace["decision"]["vetoes"] if trace["decision"] else {}
    for e in trace["endpoints"]:
        why = vetoes.get(e["endpoint"]) or e["why_not"]
        state = f"no: {why}" if why else f"{e['predicted_ms']:g} ms, {e['waiting']} waiting"
        version = f", version {e['version']}" if e["version"] else ""
        put(f"  {e['endpoint']} ({e['zone']}{version}): {state}", markup=False)
    if trace["decision"]:
        d = trace["decision"]
        put(f"-> [bold]{d['zone']}[/], ", end="")
        put(f"{' then '.join(d['attempts'])}: {d['reason']}", markup=False)
    else:
        r = trace["refusal"]
        put(f"-> refused with {r['http_status']}: {r['reason']}: {r['message']}", markup=False)
    for name, decision in trace.get("shadows", {}).items():
        put(
            f"   shadow {name}: {decision['zone'] or 'unknown'}: {decision['reason']}", markup=False
        )
