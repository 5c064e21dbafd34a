"""`spillway simulate`: what the decision, and simpler ones, would have done with a trace."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gateway.cli import console
from gateway.simulate import pictures
from gateway.simulate.arguments import LOAD, STATED_NETWORK_MS, add_arguments
from gateway.simulate.capacity import FleetSize, Prices, sizes
from gateway.simulate.loop import SimulatedWorld
from gateway.simulate.mix import RouteMix, route_mix
from gateway.simulate.moves import Moves, as_recorded, moves
from gateway.simulate.records import Replayed, read_records
from gateway.simulate.report import Compared, SimulationReport, as_json, describe_skipped, tables
from gateway.simulate.site import SimulatedSite
from gateway.simulate.study import NAMES, POLICY, StudyFigures, StudyRun, replay
from gateway.simulate.weather import Weather, known_ahead
from gateway.simulate.workload import MODES, TraceError, Workload, build, read_trace

_MISSING = "needs {}; install it with: pip install 'spillway-gateway[simulate]'"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "simulate",
        help="what the decision would have done with recorded arrivals",
        description="Drive the gateway's own decision on a virtual clock and compare it with "
        "simpler policies and with the best that anyone could have done.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        site = _site(args)
        source = _source(args, site)
    except TraceError as exc:
        console.fail(str(exc))
        return 2
    settings = _run(args, site)
    try:
        with console.progress() as progress, _quiet():
            report = _report(args, source, settings, progress)
            _write(args, report)
    except ModuleNotFoundError as exc:
        console.fail("this " + _MISSING.format(exc.name))
        return 1
    except OSError as exc:
        console.fail(f"{exc.filename}: {exc.strerror}")
        return 1
    _print(args, report)
    return 0


@dataclass(frozen=True, slots=True)
class _Source:
    calls: Workload  # as they are simulated
    replayed: Replayed | None = None


@contextmanager
def _quiet() -> Iterator[None]:
    """The simulated gateway ejects and brings back; nobody is on call for it."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _site(args: argparse.Namespace) -> SimulatedSite | None:
    """The gateway of the settings. Raises ConfigError or TraceError."""
    if args.config is None:
        if args.model is not None and args.records is None:
            raise TraceError("--model names a model of the settings; give --config too")
        return None
    return SimulatedSite.from_settings(console.load_settings(args.config), args.model)


def _run(args: argparse.Namespace, site: SimulatedSite | None) -> StudyRun:
    """Settings assume servers at a distance of half a millisecond."""
    stated_ms = 0.0 if site is None else STATED_NETWORK_MS
    network_ms = stated_ms if args.network_ms is None else args.network_ms
    return StudyRun(
        world=SimulatedWorld(
            gateways=args.replicas,
            hop_s=args.hop_ms / 1000,
            network_s=network_ms / 1000,
            seed=args.seed,
        ),
        lead_s=None if network_ms else 0.0,
        weather=Weather(
            limit=args.cloud_limit,
            retry_after_s=args.cloud_retry_after,
            outages=tuple(args.cloud_outage),
            slow=tuple(args.cloud_slow),
        ),
        site=site,
    )


def _source(args: argparse.Namespace, site: SimulatedSite | None) -> _Source:
    mode = MODES[args.mode] if site is None else site.mode(MODES[args.mode])
    servers, replayed = args.servers or 0, None
    if args.records is not None:
        model = args.model if site is None else site.model
        replayed = read_records(args.records, mode, args.seed, args.load, servers, model)
        calls = replayed.calls
    else:
        trace = read_trace(args.trace)
        calls = build(trace, mode, args.load or LOAD, args.seed, servers)
    if args.cloud_call_usd is not None:
        calls = replace(calls, unit_usd=args.cloud_call_usd)
    return _Source(calls if site is None else site.weighed(calls), replayed)


def _report(
    args: argparse.Namespace, source: _Source, settings: StudyRun, progress: Callable[[str], None]
) -> SimulationReport:
    calls, least = source.calls, None
    if not args.no_bound:
        # scipy takes a second to import and comes with an extra.
        from gateway.simulate.bound import least_cost

        progress(f"the bound for {len(calls)} calls")
        least = least_cost(known_ahead(calls, settings.weather))
    results: dict[str, StudyFigures] = {}
    moved: dict[str, Moves] = {}
    mixes: dict[str, RouteMix] = {}
    for name in args.only or NAMES:
        progress(f"{name}: {len(calls)} calls")
        result = replay(calls, name, least, settings)
        results[name] = result.figures
        mixes[name] = route_mix(calls, result.outcome)
        if source.replayed is not None:
            moved[name] = moves(source.replayed, calls, result.outcome)
    return SimulationReport(
        title=_title(args),
        results=results,
        sizes=_sweep(args, calls, settings, progress),
        mixes={name: mixes[name] for name in _drawn(results)},
        trouble=settings.weather.spans,
        compared=None
        if source.replayed is None
        else Compared(as_recorded(source.replayed, calls), moved, source.replayed.skipped),
    )


def _drawn(results: Mapping[str, StudyFigures]) -> list[str]:
    """Whose routes are drawn over time: the policy, and the cheapest of the others."""
    others = [name for name in results if name != POLICY]
    others.sort(key=lambda name: results[name].cloud_cost + results[name].missed_cost)
    return [name for name in results if name == POLICY] + others[:1]


def _title(args: argparse.Namespace) -> str:
    load = "as recorded" if args.records and not args.load else f"{args.load or LOAD:g}"
    name = (args.trace or args.records).name
    stated = "" if args.config is None else f", settings {args.config.name}"
    return f"{name}, {args.mode} mode, load {load}, seed {args.seed}{stated}"


def _sweep(
    args: argparse.Namespace, calls: Workload, settings: StudyRun, progress: Callable[[str], None]
) -> list[FleetSize]:
    fleet_sizes: list[FleetSize] = []
    if args.sweep:
        prices = Prices(args.gpu_usd_per_hour, calls.unit_usd)
        progress("1 server")
        for size in sizes(calls, range(1, args.sweep + 1), prices, settings):
            fleet_sizes.append(size)
            progress(f"{size.servers} of {args.sweep} servers")
    return fleet_sizes


def _write(args: argparse.Namespace, report: SimulationReport) -> None:
    if args.html is not None:
        pictures.write_html(args.html, report)
    if args.png is not None:
        pictures.write_png(args.png, report)


def _print(args: argparse.Namespace, report: SimulationReport) -> None:
    if report.compared is not None and (skipped := describe_skipped(report.compared.skipped)):
        console.err.print(skipped, markup=False)
    if args.json:
        console.put_json(as_json(report))
    else:
        print("\n\n".join(map(str, tables(report))))
