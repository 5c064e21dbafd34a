"""`spillway models profile`: how a model's time and throughput depend on batches and callers."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path

from rich.progress import Progress
from rich.table import Table

from gateway.cli import console
from gateway.cli.models import add_repository, chosen, reporting
from gateway.endpoints.triton import TritonServerError
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models import profiling, versions
from gateway.models.declaration import Declaration
from gateway.models.profiling import ModelProfile, load, run

_LEAST_S = 0.05


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("profile", help="measure a model's batches and throughput")
    parser.add_argument("name", metavar="NAME", help="a model with a model.yaml")
    parser.add_argument(
        "--url",
        metavar="HOST:PORT",
        help="gRPC side of a running server; without it an embedded Triton is started",
    )
    plan = run.ProfilingPlan()
    parser.add_argument(
        "--callers", type=bounded_count, default=plan.most_callers, help="at once, most"
    )
    parser.add_argument("--seconds", type=_seconds, default=plan.seconds, help="of each point")
    parser.add_argument("--rounds", type=bounded_count, default=plan.rounds, help="over all points")
    parser.add_argument("--words", type=bounded_count, default=plan.words, help="of each text")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the curves as .svg or .png")
    parser.add_argument("--dry-run", action="store_true", help="write no profile.json")
    parser.add_argument("--json", action="store_true", help="the profile as JSON")
    add_repository(parser)
    parser.set_defaults(run=reporting(execute))


def execute(args: argparse.Namespace) -> int:
    (directory,) = chosen(args.repository, [args.name])
    if args.plot is not None and not can_draw(args.plot):
        return 2
    plan = run.ProfilingPlan(args.callers, args.seconds, args.rounds, args.words)
    try:
        profile = measure(directory, plan, args.url)
    except TritonServerError as exc:
        console.fail(str(exc))
        return 1
    if not args.dry_run:
        profiling.write(directory / profiling.FILE, profile)
        console.err.print(f"written: {directory / profiling.FILE}", markup=False)
    if args.plot is not None:
        from gateway.models.profiling import picture  # matplotlib is slow to import

        picture.write(args.plot, profile)
    if args.json:
        console.put_json(asdict(profile))
    else:
        show(profile)
    return 0


def measure(directory: Path, plan: run.ProfilingPlan, url: str | None = None) -> ModelProfile:
    """Of the model in a repository's directory. Raises TritonServerError and ModelFailed."""
    model = versions.declared(directory)

    async def work(progress: Callable[[], None]) -> ModelProfile:
        async with contextlib.AsyncExitStack() as stack:
            server = None if url else await stack.enter_async_context(_served(directory))
            address = url or f"127.0.0.1:{server.ports.grpc if server else 0}"
            target = await stack.enter_async_context(
                load.connected(address, model.name, model.decoupled)
            )
            return await run.profiled(target, model, plan, _runs(server, model), progress)

    with Progress(console=console.err, transient=True) as bar:
        task = bar.add_task(f"profiling {model.name}", total=run.steps(model, plan))
        return asyncio.run(work(lambda: bar.advance(task)))


@contextlib.asynccontextmanager
async def _served(directory: Path) -> AsyncIterator[TritonServer]:
    options = TritonOptions(repositories=(directory.parent,), models=(directory.name,))
    async with TritonServer(options) as server:
        for model, why in server.unavailable.items():
            raise TritonServerError(f"{model} does not load: {why}")
        yield server


def _runs(server: TritonServer | None, model: Declaration) -> run.Runs:
    passes = () if server is None else (p for p in server.provided if p.model == model.name)
    return next((run.Runs(p.provider, p.graph, p.threads) for p in passes), run.Runs())


def show(profile: ModelProfile) -> None:
    alone = Table("rows of a call", "ms, median", "rows a second", title="one caller")
    for point in profile.batches:
        alone.add_row(str(point.rows), f"{point.p50_s * 1000:.2f}", f"{point.rows_per_s:,.0f}")
    crowd = Table(
        "callers", "calls a second", "ms, median", "ms, 99th", "executed batch",
        title="a row of each",
    )  # fmt: skip
    for load_point in profile.loads:
        crowd.add_row(
            str(load_point.callers),
            f"{load_point.calls_per_s:,.0f}",
            f"{load_point.p50_s * 1000:.2f}",
            f"{load_point.p99_s * 1000:.2f}",
            f"{load_point.executed:.1f}",
        )
    console.err.print(alone, crowd)
    console.err.print(
        f"a batch takes {profile.fixed_s * 1000:.3g} ms and {profile.per_row_s * 1000:.3g} ms a "
        f"row ({profile.error:.0%} off in the mean); {profile.best_batch} rows give nine tenths of "
        "the throughput",
        markup=False,
    )
    delay_us = profile.delay_us
    console.err.print(
        f"batching: {{delay_us: {delay_us}}} in model.yaml keeps batches whole"
        if delay_us
        else "batching: plain; waiting for more rows would cost more than it brings",
        markup=False,
    )


def can_draw(path: Path) -> bool:
    """Whether a picture can be written there; says why not."""
    if path.suffix not in (".svg", ".png"):
        console.fail(f"--plot {path}: must end in .svg or .png")
        return False
    try:
        import matplotlib  # noqa: F401 - of the extra `simulate`; whether it is there
    except ImportError:
        console.fail("--plot needs matplotlib: pip install 'spillway-gateway[simulate]'")
        return False
    return True


def bounded_count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError("must be from 1 to 1024")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not _LEAST_S <= number <= 600:
        raise argparse.ArgumentTypeError(f"must be from {_LEAST_S} to 600")
    return number
