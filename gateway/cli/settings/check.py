"""`spillway check`: whether a gateway would serve by these settings, by the code that does (O1)."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from gateway.classify import ScannerUnfit
from gateway.cli import console
from gateway.cli.settings import trial
from gateway.config import Settings
from gateway.core.types import CLOUD, ONPREM, is_onprem
from gateway.endpoints.triton import TritonServerError, repository


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "check",
        help="check a settings file",
        description="Does all that `spillway serve` does short of listening, and says what is "
        "wrong: the file with its lines, certificates, packages, the scanner's samples, the model "
        "repository, the ledger. No endpoint is asked and nothing is written. Exit codes: 0 it "
        "would serve, 2 it would not.",
    )
    parser.add_argument(
        "config", type=Path, nargs="?", metavar="FILE",
        help="default: ./spillway.yaml if it is there, else the built-in settings",
    )  # fmt: skip
    parser.add_argument(
        "--file-only", action="store_true",
        help="look at the file alone, as on a machine that is not the one that will serve",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = console.load_settings(args.config)
    if not args.file_only:
        refused = _tried(settings)
        if refused:
            console.fail(refused)
            return 2
    zones = {name: e.zone for name, e in settings.endpoints.items()}
    models = {
        name: {
            zone.name: [place for place, s in m.placed(name) if zones[s.endpoint] is zone]
            for zone in dict.fromkeys((ONPREM, CLOUD, *zones.values()))
        }
        for name, m in settings.models.items()
    }
    problems = [
        {"endpoint": name, "model": hazard.model, "told": hazard.text}
        for name, e in settings.endpoints.items()
        if e.embedded
        for hazard in repository.hazards(e.repository or Path("models"))
    ]
    absent = list(trial.absent_models(settings))
    misnamed = list(trial.unknown_key_models(settings))
    assumed = list(trial.assumed_prices(settings))
    unloaded = sorted(trial.unloaded_versions(settings))
    public = {name: m.public_reason for name, m in settings.models.items() if m.public}
    homeless = sorted(
        name
        for name, places in models.items()
        if not any(p for zone, p in places.items() if is_onprem(zone))
    )
    if args.json:
        console.put_json(
            {
                "ok": True,
                "policy": settings.policy_hash(),
                "models": models,
                "without_onprem": homeless,
                "public": public,
                "owners": owners(settings),
                "hazards": problems,
                "assumed_prices": [price.document() for price in assumed],
                "absent_models": [{"endpoint": e, "model": m} for e, m in absent],
                "unloaded_versions": [
                    {"endpoint": e, "model": m, "version": v} for e, m, v in unloaded
                ],
                "unknown_key_models": [{"key": k, "model": m} for k, m in misnamed],
            }
        )
        return 0
    console.err.print(f"[green]ok[/]: policy {settings.policy_hash()}")
    for name, places in models.items():
        where = "; ".join(f"{zone}: {', '.join(p) or '-'}" for zone, p in places.items())
        console.err.print(f"  {name}: {where}", markup=False)
    for name, servers in owners(settings).items():
        line = f"  {name} owns: {', '.join(servers) or '-'}"
        console.err.print(line + (" (this gateway)" * _is(settings, name)), markup=False)
    for name in homeless:
        console.err.print(
            f"[yellow]note:[/] {name} has no on-prem endpoint: restricted calls of it are refused"
        )
    for name, reason in public.items():  # guard: C16.check-report public.items() -> ()
        console.err.print("[yellow]note:[/] ", end="")
        line = f"calls of {name} are not read and may leave; public_reason: {reason}"
        console.err.print(line, markup=False)
    for price in assumed:
        console.err.print("[yellow]note:[/] ", end="")
        console.err.print(price.sentence(), markup=False)
    for endpoint, model in absent:
        line = f"{endpoint}: its repository has no model {model}: calls of it fail there"
        console.err.print("[yellow]warning:[/] ", end="")
        console.err.print(line, markup=False)
    for endpoint, model, version in unloaded:
        line = (
            f"{endpoint}: {model}: its server does not load version {version}, whose calls go to "
            "another; see loaded_versions of its model.yaml"
        )
        console.err.print("[yellow]warning:[/] ", end="")
        console.err.print(line, markup=False)
    for key, model in misnamed:
        line = (
            f"keys.{key}.models: {model} is none of the models; it counts only if an on-prem "
            "server has a model of that name that the settings do not declare"
        )
        console.err.print("[yellow]warning:[/] ", end="")
        console.err.print(line, markup=False)
    for hazard in problems:
        console.err.print("[yellow]warning:[/] ", end="")
        line = f"{hazard['endpoint']}: {hazard['model']}: {hazard['told']}"
        console.err.print(line, markup=False)
    return 0


def _tried(settings: Settings) -> str:
    """Why a gateway of these settings would not serve; empty when it would."""
    with console.progress() as progress:
        try:
            asyncio.run(trial.would_serve(settings, progress))
        except (TritonServerError, ScannerUnfit) as exc:
            return str(exc)
    return ""


def owners(settings: Settings) -> dict[str, list[str]]:
    """The gateways in order of succession, each with the servers that it decides on."""
    cluster = settings.cluster
    return {} if cluster is None else {n: list(g.owns) for n, g in cluster.gateways.items()}


def _is(settings: Settings, name: str) -> bool:
    return settings.cluster is not None and settings.cluster.self == name
