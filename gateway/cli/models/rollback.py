"""`spillway models rollback`: an earlier version serves again."""

from __future__ import annotations

import argparse

from gateway.cli import console
from gateway.cli.models import registry
from gateway.models.registry import RegistryError, installing, workshop
from gateway.models.registry.pulling import check_name, own_declaration


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("rollback", help="serve the version before, or another one")
    registry.add_model(parser)
    registry.add_server(parser)
    parser.add_argument("--to", type=int, metavar="V", help="also one that was taken out")
    parser.add_argument("--dry-run", action="store_true", help="say what would serve")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        check_name(args.name)
        with workshop.opened(args.repository, args.name) as shop:
            servers = registry.find_servers(args)()
            installing.recover(shop, servers)
            before = max(shop.versions(), default=None)
            if own_declaration(shop) is None:
                raise RegistryError(f"there is no model {args.name} in {args.repository}")
            updated = installing.ServersUpdated()
            if args.dry_run:
                version = installing.chosen(shop, args.to)
            else:
                version, updated = installing.roll_back(shop, args.to, servers)
            out = shop.withdrawn()
    except RegistryError as exc:
        return registry.failed(exc, args)
    if args.json:
        serving, later = list(updated.serving), list(updated.later)
        console.put_json(
            {"ok": True, "model": args.name, "version": version, "before": before,
             "withdrawn": out, "serving": serving, "later": later}
        )  # fmt: skip
        return 0
    would = "would serve" if args.dry_run else "serves" if updated.serving else "is the latest here"
    later_ = ", from the server's next start on" if updated.later else ""
    console.err.print(f"{args.name} version {version} {would}{later_}", markup=False)
    return 0
