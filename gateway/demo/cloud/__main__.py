"""`python -m gateway.demo.cloud`: one process, an HTTP, a gRPC and a control port on loopback."""

import argparse
import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path

import uvloop

from gateway.demo.cloud import settings as configured
from gateway.demo.cloud.bytelog import ByteLog
from gateway.demo.cloud.server import CloudPorts, CloudServer

_PR_SET_PDEATHSIG = 1  # prctl(2)


def main() -> None:
    arguments = _arguments()
    if arguments.parent is not None:
        _die_with(arguments.parent)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    try:
        settings = configured.load(arguments.config)
    except (configured.SettingsError, OSError) as error:
        sys.exit(f"{arguments.config}: {error}")
    log = ByteLog(arguments.byte_log or _fresh_log())
    ports = CloudPorts(arguments.http_port, arguments.grpc_port, arguments.control_port)
    server = CloudServer(arguments.models, settings, log, ports)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(server, log, arguments.ready_file))


async def _serve(server: CloudServer, log: ByteLog, ready_file: Path | None) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    ports = await server.start()
    try:
        ready = {
            "http_port": ports.http,
            "grpc_port": ports.grpc,
            "control_port": ports.control,
            "byte_log": str(log.path),
            "pid": os.getpid(),
            "simulated": True,
        }
        line = json.dumps(ready)
        if ready_file is not None:
            half = ready_file.with_name(f"{ready_file.name}.part")
            half.write_text(line + "\n", encoding="utf-8")
            half.replace(ready_file)  # a reader sees all of it or nothing
        print(line, flush=True)
        await stopped.wait()
    finally:
        await server.stop()
        log.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gateway.demo.cloud", description="A simulated cloud, for demo and tests."
    )
    parser.add_argument("--models", type=Path, required=True, help="the Triton model repository")
    parser.add_argument("--http-port", type=int, default=0, help="0: any free one")
    parser.add_argument("--grpc-port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--config", type=Path, help="settings as YAML")
    parser.add_argument("--byte-log", type=Path, help="where what is received is appended")
    parser.add_argument("--ready-file", type=Path, help="written once all ports listen")
    parser.add_argument("--parent", type=int, help="the process with whose end this one ends")
    return parser.parse_args()


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit("the process that started this one is gone")


def _fresh_log() -> Path:
    handle, name = tempfile.mkstemp(prefix="simulated-cloud-", suffix=".jsonl")
    os.close(handle)
    return Path(name)


if __name__ == "__main__":
    main()
