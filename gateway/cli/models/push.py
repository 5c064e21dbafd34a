"""`spillway models push`: a version of the repository to a registry."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from gateway.cli import console
from gateway.cli.models import registry
from gateway.models.registry import RegistryError
from gateway.models.registry.pushing import Push, push


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("push", help="give a version to a registry")
    registry.add_model(parser)
    registry.add_registry(parser, "--to")
    parser.add_argument("--version", type=int, metavar="V", help="the one that serves if not")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="an Ed25519 key in PEM")
    parser.add_argument("--dry-run", action="store_true", help="make the manifest, send nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = registry.registry_settings(args)
    try:
        with (
            registry.opened(settings) as target,
            registry.bytes_bar(f"pushing {args.name}") as (expected, sent),
        ):
            work = Push(
                args.repository, args.name, args.version, args.sign, args.dry_run, expected, sent
            )
            done = push(work, target)
    except RegistryError as exc:
        return registry.failed(exc, args)
    if args.json:
        console.put_json({"ok": True, **dataclasses.asdict(done)})
        return 0
    would = "pushed" if done.pushed else "would push"
    signed = (
        "signed" if done.signed else "not signed: whoever can write to the registry can change it"
    )
    console.err.print(
        f"{would} {done.model} version {done.version}: {done.files} files, {done.size} bytes, "
        f"manifest sha256 {done.sha256[:12]}, {signed}",
        markup=False,
    )
    return 0
