"""`spillway models pull`: a version from a registry becomes the one that serves."""

from __future__ import annotations

import argparse
import dataclasses

from gateway.cli import console
from gateway.cli.models import registry
from gateway.models.registry import RegistryError
from gateway.models.registry.fetching import Source
from gateway.models.registry.pulling import Pull, Pulled, RequestedVersion, Stage, pull


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("pull", help="take a version from a registry and serve it")
    registry.add_model(parser)
    registry.add_registry(parser, "--from")
    registry.add_server(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", type=int, metavar="V", help="the latest if not")
    which.add_argument("--alias", help="the version that MLflow calls so")
    parser.add_argument(
        "--no-trial", action="store_true", help="install it without trying it first"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be pulled")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = registry.registry_settings(args)
    wanted = RequestedVersion(args.name, args.version, args.alias, args.dry_run, not args.no_trial)
    try:
        with (
            registry.opened(settings) as source,
            registry.bytes_bar(f"pulling {args.name}") as (expected, sent),
        ):
            work = Pull(
                args.repository,
                Source(source, settings.max_bytes, settings.public_key),
                registry.find_servers(args),
                _print_stage,
                sent,
                expected,
            )
            done = pull(work, wanted)
    except RegistryError as exc:
        return registry.failed(exc, args)
    if args.json:
        console.put_json({"ok": True, **dataclasses.asdict(done)})
    else:
        console.err.print(_summary(done, args.dry_run), markup=False)
        for note in done.notes:
            console.err.print(f"note: {note}", markup=False)
    return 0


def _print_stage(stage: Stage, line: str) -> None:
    if stage is not Stage.DONE:
        console.err.print(f"{stage.value}: {line}", markup=False)


def _summary(done: Pulled, dry_run: bool) -> str:
    what = f"{done.model} version {done.version} ({done.size} bytes)"
    if dry_run:
        return f"would pull {what}; here is version {done.before or 'none'}"
    if not done.installed:
        return f"{what} is here already, as the registry has it"
    if done.serving:
        return f"{what} serves at {', '.join(done.serving)}; before it: {done.before or 'none'}"
    if done.later:
        return (
            f"{what} is installed. The running server takes it at its next start: its endpoint "
            "does not say reload: true"
        )
    return f"{what} is installed. No server runs over this repository; the next one serves it"
