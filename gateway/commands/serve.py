"""`spillway serve`: the gateway itself."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from gateway.classify import deferred, process
from gateway.commands import console
from gateway.config_error import ConfigError
from gateway.lazily import put_off

if TYPE_CHECKING:
    from gateway.app import Gateway
    from gateway.config import Settings
    from gateway.reloading import SettingsFile

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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    asked = {"host": args.host, "http_port": args.http_port, "grpc_port": args.grpc_port}
    return uvloop.run(_serve(args.config, asked, args.ready_file))


async def _serve(
    path: Path | None, asked: Mapping[str, str | int | None], ready_file: Path | None
) -> int:
    """Imports on one core while the scanner does on another; then it is told the settings."""
    await process.start_ahead()
    put_off(*_SELDOM)
    from gateway import coredumps, logs
    from gateway.reloading import SettingsFile

    file = SettingsFile(
        console.path_of(path), lambda of: overridden(console.settings_of(of), asked)
    )
    settings = file.read()
    coredumps.forbid()
    logs.configure(settings.log.level, settings.log.format)
    with deferred.deferred(_CLIENTS):
        import tritonclient.grpc  # noqa: F401
    from gateway.classify import ScannerUnfit
    from gateway.embedded import TritonServerError

    try:
        await _run(settings, file, ready_file)
    except (TritonServerError, ScannerUnfit) as exc:
        console.fail(str(exc))
        return 1
    return 0


async def _run(settings: Settings, file: SettingsFile, ready_file: Path | None) -> None:
    from gateway.app import Gateway

    loop = asyncio.get_running_loop()
    with console.progress() as tell:
        gateway = Gateway(settings, tell, file)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, gateway.stop)
        if gateway.reloading is not None:
            loop.add_signal_handler(signal.SIGHUP, gateway.reloading.ask)
        serving = asyncio.Event()

        def ready(started: Gateway) -> None:
            _announce(started, ready_file)
            serving.set()

        running = asyncio.create_task(gateway.run(ready))
        waiting = asyncio.create_task(serving.wait())
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    await running


def _announce(gateway: Gateway, ready_file: Path | None) -> None:
    host = gateway.settings.listen.host
    scheme = "http" if gateway.settings.listen.tls is None else "https"
    console.say(
        "spillway",
        f"serves {scheme}://{host}:{gateway.http_port} and gRPC {host}:{gateway.grpc_port}",
        "bold green",
    )
    if gateway.settings.anybody:
        console.say(
            "development mode:",
            "no keys are configured, so whoever reaches these ports may call; add keys before you "
            "expose them",
            "bold yellow",
        )
    if ready_file is not None:
        told = {"http_port": gateway.http_port, "grpc_port": gateway.grpc_port, "pid": os.getpid()}
        part = ready_file.with_name(ready_file.name + ".part")
        part.write_text(json.dumps(told))
        part.replace(ready_file)


def overridden(settings: Settings, asked: Mapping[str, str | int | None]) -> Settings:
    """The settings with what was asked for under `listen`. Raises ConfigError."""
    changes = {name: value for name, value in asked.items() if value is not None}
    if not changes:
        return settings
    from pydantic import ValidationError

    from gateway.config import Settings

    given = {name: getattr(settings, name) for name in Settings.model_fields}
    try:
        return Settings.model_validate(
            {**given, "listen": {**settings.listen.model_dump(), **changes}}
        )
    except ValidationError as exc:
        said = "; ".join(error["msg"].removeprefix("Value error, ") for error in exc.errors())
        raise ConfigError(f"{', '.join(changes)}: {said}") from None
