"""`spillway serve`: the gateway itself."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from gateway.classify.scan_workers import deferred, process
from gateway.cli import console
from gateway.cluster.workers import WorkerPlace
from gateway.core.config_error import ConfigError
from gateway.core.process import gc_tuning
from gateway.core.process.lazy_imports import put_off

if TYPE_CHECKING:
    from gateway.app.gateway import Gateway
    from gateway.app.reload import SettingsFile
    from gateway.cluster.workers.parent import Parent  # most gateways are one process
    from gateway.cluster.workers.worker import Worker
    from gateway.config import Settings

_SELDOM = ("httpx", "numpy")
"""Used by gateways that carry Triton, have queues or look for names; a tenth of a second."""
_CLIENTS = tuple(
    f"tritonclient.{name}"
    for name in (
        "utils", "_plugin", "_request", "grpc._client", "grpc._infer_input", "grpc._infer_result",
        "grpc._requested_output", "grpc._utils",
    )
)  # fmt: skip
"""Of Triton's client the gateway needs the messages."""
_SERVERS = ("prometheus_client.exposition",)
"""Of Prometheus' it needs the kinds of metric until somebody reads them."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="run the gateway",
        description="Serves until SIGTERM or Ctrl-C, then lets calls finish. Without settings of "
        "yours: the embedded Triton over ./models, no cloud, no keys, on this machine alone.",
        epilog="Exit codes: 0 stopped in an orderly way; 1 it could not go on; 2 the settings are "
        "wrong (`spillway check` says so without starting).",
    )
    console.add_config(parser)
    parser.add_argument("--host", metavar="HOST", help="instead of listen.host")
    parser.add_argument(
        "--http-port", type=int, metavar="PORT", help="instead of listen.http_port; 0: a free one"
    )
    parser.add_argument(
        "--grpc-port", type=int, metavar="PORT", help="instead of listen.grpc_port; 0: a free one"
    )
    parser.add_argument(
        "--ready-file", type=Path, metavar="FILE", help="write the ports here as JSON when serving"
    )
    parser.add_argument(
        "--workers", type=_workers, metavar="N", help="instead of listen.workers; a number, or auto"
    )
    parser.add_argument("--worker", type=_place, help=argparse.SUPPRESS)  # given by the parent
    parser.set_defaults(run=run)


def _workers(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _place(text: str) -> WorkerPlace:
    return WorkerPlace(**json.loads(text))


def run(args: argparse.Namespace) -> int:
    return uvloop.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    gc_tuning.none_yet()
    put_off(*_SELDOM)
    await process.start_ahead()
    try:
        return await _read_and_serve(args)
    finally:  # nobody asked for it, if the settings are wrong
        await process.none_ahead()


async def _read_and_serve(args: argparse.Namespace) -> int:
    """The scanner imports on one core while this process does on another; then it is told the
    settings."""
    with deferred.deferred(_SERVERS):
        import prometheus_client  # noqa: F401 - before anything imports more of it
    # While the scanner's process imports, and not before it was started.
    from gateway.app.reload import SettingsFile
    from gateway.classify import ScannerUnfit
    from gateway.core.process import coredumps, logs
    from gateway.endpoints.triton import TritonServerError

    overrides = {
        "host": args.host, "http_port": args.http_port, "grpc_port": args.grpc_port,
        "workers": args.workers,
    }  # fmt: skip
    file = SettingsFile(
        console.settings_path(args.config),
        lambda path: overridden(console.load_settings(path), overrides),
    )
    settings = await asyncio.to_thread(file.read)  # which may run commands
    coredumps.forbid()
    place: WorkerPlace | None = args.worker
    number = None if place is None else place.number
    if logs.configure(settings.log.level, settings.log.format, worker=number):
        console.speak_in_log()
    with deferred.deferred(_CLIENTS):
        import tritonclient.grpc  # noqa: F401
    try:
        if place is None and settings.listen.worker_count > 1:
            await process.none_ahead()
            return await _lead(settings, args)
        await _serve(settings, file, args.ready_file, place)
    except (TritonServerError, ScannerUnfit) as exc:
        console.fail(str(exc))
        return 1
    return 0


async def _lead(settings: Settings, args: argparse.Namespace) -> int:
    """Workers do what `serve` does; this process has them."""
    from gateway.cluster.workers.parent import Parent  # most gateways are one process

    loop = asyncio.get_running_loop()
    with console.progress() as report:
        ready = asyncio.Event()

        def serves(parent: Parent) -> None:
            _announce(settings, parent.http_port, parent.grpc_port)
            _write_ready(args.ready_file, parent.http_port, parent.grpc_port, parent.pids)
            ready.set()
            gc_tuning.settled()

        parent = Parent(settings, _arguments(args), report, serves)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, parent.stop)
        loop.add_signal_handler(signal.SIGHUP, parent.reload)
        running = asyncio.create_task(parent.run())
        await _either(running, ready)
    return await running


def _arguments(args: argparse.Namespace) -> list[str]:
    """For a worker: it reads the settings as this process has."""
    given = {
        "--config": args.config, "--host": args.host, "--http-port": args.http_port,
        "--grpc-port": args.grpc_port, "--workers": args.workers,
    }  # fmt: skip
    return ["serve", *(f"{name}={value}" for name, value in given.items() if value is not None)]


async def _either(running: asyncio.Task[Any], ready: asyncio.Event) -> None:
    """Until it serves, or ends before."""
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _serve(
    settings: Settings, file: SettingsFile, ready_file: Path | None, place: WorkerPlace | None
) -> None:
    # By now the scanner's process imports beside this one.
    from gateway.app.gateway import Gateway

    loop = asyncio.get_running_loop()
    worker = None if place is None else _worker(place, settings)
    with console.progress() if worker is None else contextlib.nullcontext(_quiet) as report:
        gateway = Gateway(settings, report, file, worker)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, gateway.stop)
        if gateway.reloading is not None:
            loop.add_signal_handler(signal.SIGHUP, gateway.reloading.ask)
        gateway.generations.retired = gc_tuning.settled_anew
        serving = asyncio.Event()

        def ready(started: Gateway) -> None:
            if worker is None:
                _announce(started.settings, started.http_port, started.grpc_port)
                _write_ready(ready_file, started.http_port, started.grpc_port, None)
            serving.set()
            gc_tuning.settled()
            loop.call_later(gc_tuning.SETTLED_S, gc_tuning.settled)

        running = asyncio.create_task(gateway.run(ready))
        await _either(running, serving)
    await running


def _worker(place: WorkerPlace, settings: Settings) -> Worker:
    from gateway.cluster.workers.worker import Worker  # most gateways are one process
    from gateway.core import ambient  # imported by now, as what serves needs it

    return Worker(place, settings, ambient.monotonic_s)


def _quiet(line: str) -> None:
    """Of a worker; the parent says how far the start is."""


def _announce(settings: Settings, http_port: int, grpc_port: int) -> None:
    host = settings.listen.host
    scheme = "http" if settings.listen.tls is None else "https"
    workers = settings.listen.worker_count
    together = f" with {workers} workers" if workers > 1 else ""
    console.say(
        "spillway",
        f"serves {scheme}://{host}:{http_port} and gRPC {host}:{grpc_port}{together}",
        "bold green",
    )
    if settings.anybody:
        console.say(
            "development mode:",
            "no keys are configured, so whoever reaches these ports may call; add keys before you "
            "expose them",
            "bold yellow",
        )


def _write_ready(
    ready_file: Path | None, http_port: int, grpc_port: int, workers: list[int] | None
) -> None:
    if ready_file is None:
        return
    document: dict[str, Any] = {"http_port": http_port, "grpc_port": grpc_port, "pid": os.getpid()}
    if workers is not None:
        document["workers"] = workers
    part = ready_file.with_name(ready_file.name + ".part")
    part.write_text(json.dumps(document))
    part.replace(ready_file)


def overridden(settings: Settings, overrides: Mapping[str, str | int | None]) -> Settings:
    """The settings with what was asked for under `listen`. Raises ConfigError."""
    changes = {name: value for name, value in overrides.items() if value is not None}
    if not changes:
        return settings
    from pydantic import ValidationError  # imported by now, as the settings are read

    from gateway.config import Settings  # the same

    given = {name: getattr(settings, name) for name in Settings.model_fields}
    try:
        return Settings.model_validate(
            {**given, "listen": {**settings.listen.model_dump(), **changes}}
        )
    except ValidationError as exc:
        problems = "; ".join(error["msg"].removeprefix("Value error, ") for error in exc.errors())
        raise ConfigError(f"{', '.join(changes)}: {problems}") from None
