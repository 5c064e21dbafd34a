"""Sections of the page over all workers, from this one's part and the others'. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.accounting.live.shares import WorkerShare

Section = Any  # JSON


def gateway(own: Mapping[str, Section], shares: Sequence[WorkerShare]) -> Section:
    parts = [own["gateway"], *(share.gateway for share in shares if share.gateway)]
    return {
        "draining": any(part["draining"] for part in parts),
        "in_flight": sum(part["in_flight"] for part in parts),
    }


def endpoints(own: Mapping[str, Section], shares: Sequence[WorkerShare]) -> list[Section]:
    """As this worker sees them, with the calls of all workers in flight."""
    return [
        _with_calls(endpoint, [s.endpoints.get(endpoint["name"]) for s in shares])
        for endpoint in own["endpoints"]
    ]


def _with_calls(own: Section, others: Iterable[Section | None]) -> Section:
    same = [other for other in others if other is not None]
    in_flight = own["in_flight"] + sum(other["in_flight"] for other in same)
    by_model: Counter[str] = Counter()
    for other in same:
        by_model.update({model["model"]: model["in_flight"] for model in other["models"]})
    models = [m | {"in_flight": m["in_flight"] + by_model[m["model"]]} for m in own["models"]]
    state = own["state"]
    if state == "drained" and in_flight:
        state = "draining"
    return own | {"in_flight": in_flight, "models": models, "state": state}


def pools(own: Mapping[str, Section], shares: Sequence[WorkerShare]) -> Section:
    """Of the worker that decides on the queues of all."""
    for share in shares:
        if own["pools"] is None and share.pools is not None:
            return share.pools
    return own["pools"] or []


def counts(own: Counter[tuple[str, str]], shares: Sequence[WorkerShare]) -> list[Section]:
    return [
        {"sensitivity": kind, "zone": zone, "calls": calls}
        for (kind, zone), calls in sorted(_every(own, shares).items())
    ]


def alarm(own: Section, calls: Counter[tuple[str, str]], shares: Sequence[WorkerShare]) -> Section:
    others = [share.alarm for share in shares if share.alarm]
    latest = own["latest"]
    if latest is None:
        latest = next((other["latest"] for other in others if other["latest"]), None)
    return {
        **{
            name: own[name] + sum(other[name] for other in others)
            for name in ("restricted_in_cloud", "stopped_at_door")
        },
        "latest": latest,
        "restricted": sum(n for (kind, _), n in _every(calls, shares).items() if kind != "clear"),
    }


def _every(
    own: Counter[tuple[str, str]], shares: Sequence[WorkerShare]
) -> Counter[tuple[str, str]]:
    every = Counter(own)
    for share in shares:
        every.update(share.counts)
    return every
