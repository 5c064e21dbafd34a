"""What knowing who calls adds to a call, by the kind of credential and the number of keys.

    python -m loadtests.callers.cost --keys 10 10000

`find` is the time of one `identify`, `limits` that of taking and giving back a call's part of the
limits of its key and its tenant; each is the median of several rounds, in microseconds of the
processor. `call` is a whole REST call over one kept connection to the real front, with a stand-in
for everything behind it, which makes the share of callers as large as it can be; the ratio is to
the same call in development mode, measured in turns with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import uvloop

from gateway.auth import Callers
from gateway.auth.issued import Clocks
from gateway.auth.key_store import KeyRecord
from gateway.auth.tokens import IssuerTokens
from gateway.config import TenantSettings
from gateway.core import ambient
from gateway.core.reply import InferenceReply
from gateway.core.types import InferenceRequest
from gateway.pipeline.rate_limits import RateLimits
from gateway.server import Services
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai
from tests.unit.callers import issuer as issuers
from tests.unit.callers.rig import Vault
from tests.unit.fronts import http_rig
from tests.unit.fronts.every_front import MODEL, TENSOR, answering, catalog

_ROUNDS, _CALLS, _LIMIT = 15, 2000, 1e9
_BODY = json.dumps({"inputs": [TENSOR]}).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--keys", type=int, nargs="+", default=[10, 10_000])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = uvloop.run(_all(args.keys))
    if args.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'credential':24}{'find us':>10}{'limits us':>11}{'call us':>10}{'ratio':>8}")
    for name, row in found.items():
        figures = "".join(f"{row[k]:>{w}.{d}f}" for k, w, d in _COLUMNS)
        print(f"{name:24}{figures}")


_COLUMNS = (("find_us", 10, 2), ("limits_us", 11, 2), ("call_us", 10, 1), ("ratio", 8, 3))


async def _all(sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    found = {"development mode": await _measured(Callers({}), "")}
    with tempfile.TemporaryDirectory() as scratch:
        for size in sizes:
            folder = Path(scratch) / str(size)
            folder.mkdir()
            vault = Vault(folder, {"acme": TenantSettings(max_concurrent=1 << 20)})
            credential = f"Bearer {_filled(vault, size)}"
            found[f"{size} issued keys"] = await _measured(vault.callers, credential)
    issuer = issuers.Issuer()
    async with issuer.serving():
        clocks = Clocks(ambient.monotonic_s, lambda: issuers.NOW_S)
        its = issuers.settings(jwks_url=issuer.url, requests_per_minute=_LIMIT)
        tokens = IssuerTokens({"corp": its}, {}, clocks)
        for each in tokens._by_issuer.values():
            await each.keys.fetch()
    callers = Callers({}, tokens=tokens)
    found["a token, seen before"] = await _measured(callers, f"Bearer {issuers.signed()}")
    tokens._most_remembered = 0
    tokens._verified.clear()
    found["a token, new (RS256)"] = await _measured(callers, f"Bearer {issuers.signed()}")
    return found


def _filled(vault: Vault, size: int) -> str:
    key = vault.create("acme", requests_per_minute=_LIMIT, max_concurrent=1 << 20)
    vault.store._file.execute("BEGIN")
    for at in range(size - 1):
        record = KeyRecord(f"{at:012d}", bytes(32), f"tenant-{at}", "", "{}", 0.0)
        vault.store._insert(record)
    vault.store._file.execute("COMMIT")
    vault.issued.poll()
    return key


async def _measured(callers: Callers, credential: str) -> dict[str, float]:
    caller = callers.identify(credential)
    limits = RateLimits(ambient.monotonic_s)
    request = replace(_REQUEST, quotas=caller.quotas)

    def enter_and_leave() -> None:
        limits.enter(request).settle(None, True)

    usual_us, call_us = await _calls(callers, credential, limits)
    return {
        "find_us": _median_us(lambda: callers.identify(credential)),
        "limits_us": _median_us(enter_and_leave),
        "call_us": call_us,
        "ratio": call_us / usual_us,
    }


def _median_us(work: Callable[[], object]) -> float:
    rounds = []
    for _ in range(_ROUNDS):
        began_s = time.thread_time()
        for _ in range(_CALLS):
            work()
        rounds.append((time.thread_time() - began_s) / _CALLS * 1e6)
    return statistics.median(rounds)


async def _calls(callers: Callers, credential: str, limits: RateLimits) -> tuple[float, float]:
    """Of a call in development mode, and of this one, in turns."""
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for known in (Callers({}), callers):
            services = _services(known, limits)
            app = App(services, [openai.front(services), kserve.front(services)])
            port = await stack.enter_async_context(http_rig.serving(app))
            client = await http_rig.Client.to(port)
            stack.callback(client.close)
            clients.append(client)
        headers = [
            ("content-type", "application/json"),
            ("authorization", credential or "Bearer x"),
        ]
        took_us: tuple[list[float], list[float]] = [], []
        for _ in range(_CALLS):
            for client, times in zip(clients, took_us, strict=True):
                began_s = time.perf_counter()
                answer = await client.ask("POST", f"/v2/models/{MODEL}/infer", _BODY, headers)
                times.append((time.perf_counter() - began_s) * 1e6)
                assert answer.status == 200
    return statistics.median(took_us[0]), statistics.median(took_us[1])


def _services(callers: Callers, limits: RateLimits) -> Services:
    async def handle(request: InferenceRequest) -> InferenceReply:
        share = limits.enter(request)
        reply = await answering(request)
        told = replace(reply.placement, limits=share.headers())
        share.settle(None, True)
        return replace(reply, placement=told)

    made = http_rig.services(http_rig.Pipeline())
    return replace(made, handle=handle, callers=callers, catalog=catalog())


def _request() -> InferenceRequest:
    seen: list[InferenceRequest] = []

    async def handle(request: InferenceRequest) -> InferenceReply:
        seen.append(request)
        return await answering(request)

    async def one() -> None:
        made = replace(http_rig.services(http_rig.Pipeline()), handle=handle, catalog=catalog())
        async with http_rig.serving(App(made, [kserve.front(made)])) as port:
            json_type = [("content-type", "application/json")]
            await http_rig.ask(port, "POST", f"/v2/models/{MODEL}/infer", _BODY, json_type)

    asyncio.run(one())
    return seen[0]


_REQUEST = _request()

if __name__ == "__main__":
    main()
