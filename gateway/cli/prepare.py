"""`spillway prepare`: compile what scans need before the first start, once for each machine."""

from __future__ import annotations

import argparse
import asyncio

from gateway.auth import building
from gateway.classify import ScannerUnfit
from gateway.classify.scan_workers.prepare import Prepared, Report, prepare
from gateway.cli import console
from gateway.config import Settings
from gateway.core.process import logs


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "prepare",
        help="compile what scans need before the first start",
        description="Compiles the patterns of the settings into the cache, for the processor of "
        "this machine; what is there stays. A gateway whose patterns are not there compiles them "
        "in the background at its start, and keeps on the premises what it cannot read in time.",
    )
    console.add_config(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = console.load_settings(args.config)
    logs.configure(settings.log.level, settings.log.format)
    try:
        with console.progress() as report:
            how = asyncio.run(_prepared(settings, report))
    except ScannerUnfit as exc:
        console.fail(str(exc))
        return 1
    if how is Prepared.NOT_CACHED:
        console.fail(f"pattern databases: {how.value}")
        return 1
    console.err.print(f"[green]✓[/] pattern databases: {how.value}")
    return 0


async def _prepared(settings: Settings, report: Report) -> Prepared:
    added = building.build(settings).tightenings()
    return await prepare(settings.classify, added, report)
