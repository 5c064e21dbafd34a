"""`spillway demo`: the product at work on this machine, with a simulated cloud beside it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import importlib.util
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gateway.cli import console
from gateway.config import ConfigError, ListenSettings
from gateway.endpoints.triton import TritonServerError

if TYPE_CHECKING:
    from gateway.demo.run import DemoResult, Options

_PLAIN_WIDTH = 120  # of tables in a file or a pipe
_BUILT = (
    "minilm/1/model.onnx",
    "minilm/1/tokenizer.json",
    "fraud_score/1/model.onnx",
    "image_inspection/1/model.onnx",
    "scribe/1/corpus.txt",
)


class CannotRun(Exception):
    """Something that the demo needs is missing; the message says what to do."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="see it work: real calls, a real Triton, a simulated cloud",
        description="Starts the gateway with its embedded Triton, and a simulated cloud; sends the "
        "gateway a mixed load through the unmodified openai and tritonclient clients, kills Triton "
        "on the way, and tells where every call went and why. Then it goes on serving until "
        "Ctrl-C. Nothing leaves this machine.",
        epilog="Exit codes: 0 done and the promise held; 1 it failed, or a restricted call was "
        "found in the cloud; 2 the options are wrong; 130 stopped by Ctrl-C before the summary.",
    )
    ports = ListenSettings()
    parser.add_argument("--once", action="store_true", help="end after the summary")
    parser.add_argument("--json", action="store_true", help="the summary as JSON on stdout")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the summary")
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=36.0,
        metavar="S",
        help="how long calls are sent (default: 36)",
    )
    for name, port in (("--http-port", ports.http_port), ("--grpc-port", ports.grpc_port)):
        parser.add_argument(
            name, type=int, metavar="PORT", help=f"default: {port}, or a free one if it is taken"
        )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path("var/demo"),
        help="where records and logs go (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        _check_installed()
        with own(args.dir.absolute()) as directory:
            return asyncio.run(_Demo(args, _options(args, directory)).run())
    except (CannotRun, TritonServerError) as exc:
        console.fail(str(exc))
        return 1


class _Demo:
    def __init__(self, args: argparse.Namespace, options: Options) -> None:
        self._args, self._options = args, options
        self._task: asyncio.Task[object] | None = None
        self._stopped_by: int | None = None
        self._code: int | None = None  # once there is a summary

    async def run(self) -> int:
        from gateway.demo.cloud.process import CloudFailed  # these need the extra packages
        from gateway.demo.gateway_process import GatewayDied

        self._task = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number)
        try:
            await self._play()
        except asyncio.CancelledError:
            if self._stopped_by is None:
                raise
        except (GatewayDied, CloudFailed) as exc:
            console.fail(str(exc))
            return 1
        return 128 + (self._stopped_by or 0) if self._code is None else self._code

    def _stop(self, number: int) -> None:
        if self._stopped_by is None and self._task:  # impatience does not make stopping shorter
            self._stopped_by = number
            self._task.cancel()
            if not self._args.quiet:
                console.err.print("stopping the gateway, its Triton and the simulated cloud")

    async def _play(self) -> None:
        from gateway.demo.run import demonstration  # needs the extra packages
        from gateway.demo.screen import screen

        with contextlib.ExitStack() as shown:
            watched = shown.enter_context(screen(console.err, quiet=self._args.quiet))
            async with demonstration(self._options, watched) as result:
                shown.close()
                self._print_result(result)
                self._code = 0 if result.proof.holds else 1
                if not self._args.once:
                    self._print_locations(result)
                    await result.gateway.died()

    def _print_result(self, result: DemoResult) -> None:
        from gateway.demo.report import document, report  # needs the extra packages

        if self._args.json:
            console.put_json(document(result.summary, result.proof))
            sys.stdout.flush()
            return
        out = Console(
            highlight=False, emoji=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH
        )
        for part in report(result.summary, result.proof):
            out.print(part)

    def _print_locations(self, result: DemoResult) -> None:
        from gateway.demo.where import where  # needs the extra packages

        console.err.print()
        for line in where(result, self._options):
            console.err.print(line, markup=False, soft_wrap=True)


def _check_installed() -> None:
    # only the demo looks for it first
    from gateway.endpoints.triton.installation import Installation

    for package, name in (("openai", "the openai client"), ("uvicorn", "uvicorn")):
        if importlib.util.find_spec(package) is None:
            raise CannotRun(f"the demo needs {name}: pip install 'spillway-gateway[demo,embedded]'")
    Installation.find()


def _options(args: argparse.Namespace, directory: Path) -> Options:
    from gateway.demo.run import Options  # needs the extra packages

    ports = ListenSettings()
    return Options(
        models=_models(),
        directory=directory,
        seconds=args.seconds,
        http_port=port("--http-port", args.http_port, ports.http_port),
        grpc_port=port("--grpc-port", args.grpc_port, ports.grpc_port),
    )


def _models() -> Path:
    """./models, or the ones of the checkout that this is installed from."""
    checkout = Path(__file__).parents[2] / "models"
    directory = next((p for p in (Path("models").absolute(), checkout) if p.is_dir()), None)
    if directory is None:
        raise CannotRun("there is no models/ here: run the demo in a checkout of Spillway")
    missing = [name for name in _BUILT if not (directory / name).exists()]
    if missing:
        raise CannotRun(
            f"{directory / missing[0]} is missing: run `make models` to build the models"
        )
    return directory


def port(option: str, wanted: int | None, default: int) -> int:
    if wanted is None:
        return default if _is_free(default) else 0
    if not 0 <= wanted <= 65535:
        raise ConfigError(f"{option}: must be between 0 and 65535")
    if wanted and not _is_free(wanted):
        raise ConfigError(f"{option}: port {wanted} is in use; name another, or leave it out")
    return wanted


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def own(directory: Path) -> Iterator[Path]:
    """The directory, without what an earlier run left there, for this run alone."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as exc:
        raise CannotRun(f"--dir: {directory} cannot be written: {exc.strerror}") from exc
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotRun(
                f"another demo runs in {directory}: stop it, or give --dir another directory"
            ) from None
        shutil.rmtree(directory / "audit", ignore_errors=True)
        for name in ("gateway.log", "cloud-bytes.jsonl", "stop-spilling"):
            (directory / name).unlink(missing_ok=True)
        yield directory


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 2 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("must be between 2 and 3600")
    return seconds
