"""`spillway check`: whether a file of settings is right, by the very code that serves it (O1)."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway import repository
from gateway.commands import console
from gateway.config import Settings
from gateway.types import Zone


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "check",
        help="check a settings file",
        description="Reads the file as `spillway serve` would and says what is wrong, with the "
        "line; no endpoint is asked. Exit codes: 0 it is right, 2 it is not.",
    )
    parser.add_argument(
        "config", type=Path, nargs="?", metavar="FILE",
        help="default: ./spillway.yaml if it is there, else the built-in settings",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = console.settings_of(args.config)
    zones = {name: e.zone for name, e in settings.endpoints.items()}
    models = {
        name: {
            "onprem": [s.endpoint for s in m.served_by if zones[s.endpoint] is Zone.ONPREM],
            "cloud": [s.endpoint for s in m.served_by if zones[s.endpoint] is Zone.CLOUD],
        }
        for name, m in settings.models.items()
    }
    found = [
        {"endpoint": name, "model": hazard.model, "told": hazard.told}
        for name, e in settings.endpoints.items()
        if e.embedded
        for hazard in repository.hazards(e.repository or Path("models"))
    ]
    public = {name: m.public_reason for name, m in settings.models.items() if m.public}
    homeless = sorted(name for name, places in models.items() if not places["onprem"])
    if args.json:
        console.put_json(
            {
                "ok": True,
                "policy": settings.policy_hash(),
                "models": models,
                "without_onprem": homeless,
                "public": public,
                "owners": owners(settings),
                "hazards": found,
            }
        )
        return 0
    console.err.print(f"[green]ok[/]: policy {settings.policy_hash()}")
    for name, places in models.items():
        where = "; ".join(f"{zone}: {', '.join(p) or '-'}" for zone, p in places.items())
        console.err.print(f"  {name}: {where}", markup=False)
    for name, servers in owners(settings).items():
        told = f"  {name} owns: {', '.join(servers) or '-'}"
        console.err.print(told + (" (this gateway)" * _is(settings, name)), markup=False)
    for name in homeless:
        console.err.print(
            f"[yellow]note:[/] {name} has no on-prem endpoint: restricted calls of it are refused"
        )
    for name, reason in public.items():
        console.err.print("[yellow]note:[/] ", end="")
        told = f"calls of {name} are not read and may leave; public_reason: {reason}"
        console.err.print(told, markup=False)
    for hazard in found:
        console.err.print("[yellow]warning:[/] ", end="")
        told = f"{hazard['endpoint']}: {hazard['model']}: {hazard['told']}"
        console.err.print(told, markup=False)
    return 0


def owners(settings: Settings) -> dict[str, list[str]]:
    """The gateways in order of succession, each with the servers that it decides on."""
    cluster = settings.cluster
    return {} if cluster is None else {n: list(g.owns) for n, g in cluster.gateways.items()}


def _is(settings: Settings, name: str) -> bool:
    return settings.cluster is not None and settings.cluster.self == name
