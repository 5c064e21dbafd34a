"""The embedded Triton: starts a real tritonserver from the `nvidia-pytriton` wheel and keeps it up.

What it promises, and what it does not:

- `ServerState.UP` means that the process runs, has loaded its models and listens. It is **not** a
  health check, and nothing here claims to be one: after its Python stub dies, Triton 2.51 goes on
  answering 200 on `/v2/health/ready` while every inference fails. Only inferences show health, so
  whoever sends them calls `restart(reason)` when they fail.
- A process that ends by itself is started again on the same ports, after a pause that doubles up to
  a cap.
- Nothing is left behind: the server leads its own process group, which is killed as a whole once
  the server has ended, with its shared memory; and the kernel ends the server if the gateway dies.
- Nothing of a call reaches the log. Triton's lines may quote request ids, names and exceptions from
  models, so once the server serves only the messages of sources known to be free of content pass;
  of all others only level and place are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import fcntl
import importlib.util
import itertools
import logging
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO

import httpx

logger = logging.getLogger("gateway.triton")

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
_KILL_MARGIN_S = 2.0  # past the grace that Triton itself was given

# Models need these of the gateway's environment and nothing else: it may hold the keys of cloud
# providers, and proxy settings.
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "CUDA_VISIBLE_DEVICES")

# The kernel signals the server when the thread that started it ends. A function run between fork
# and exec would do the same and can deadlock in a process with threads (grpc has them), hence a
# launcher that becomes the server. The parent is compared: it may be gone before the request.
_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class TritonServerError(RuntimeError):
    """The embedded Triton cannot run; the message says what to do about it."""


class TritonNotInstalled(TritonServerError):
    """The optional package that carries the server is missing, or cannot run on this Python."""


class TritonStartError(TritonServerError):
    """The server ended, or took too long, before it listened."""


class ServerState(enum.Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    UP = "up"  # listens, with its models loaded; says nothing about whether inference works
    BACKING_OFF = "backing_off"
    FAILED = "failed"  # the first start did not succeed: something is wrong with the set-up
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Ports:
    http: int
    grpc: int
    metrics: int


@dataclass(frozen=True, slots=True)
class TritonOptions:
    repositories: tuple[Path, ...]
    models: tuple[str, ...] = ()  # empty: every model of the repositories
    ports: Ports = Ports(0, 0, 0)  # 0: a free one, kept over restarts
    start_timeout_s: float = 90.0
    stop_grace_s: float = 10.0  # for calls in flight, on aclose
    restart_grace_s: float = 2.0  # a gray server has little left to finish
    backoff_first_s: float = 0.5
    backoff_cap_s: float = 30.0
    backoff_forgotten_s: float = 60.0  # up for so long: the next pause is the first one again
    http_threads: int = 4
    # Triton can complete a partial config.pbtxt, by starting each model's process twice.
    complete_configs: bool = False
    # Every model instance takes this much of /dev/shm at once and grows by as much: 20 models fit
    # the 64 MiB that containers get by default, with room for tensors.
    shm_per_model_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the parts of the server lie on this machine."""

    binary: Path
    backend: Path
    stub: Path
    libraries: Path
    site_packages: tuple[Path, ...]

    @classmethod
    def find(
        cls, package_name: str = "pytriton", python: tuple[int, int] = sys.version_info[:2]
    ) -> Installation:
        version = f"{python[0]}.{python[1]}"
        if python >= (3, 13):
            raise TritonNotInstalled(
                f"the embedded Triton does not run on Python {version}: use Python 3.11 or 3.12, "
                "or connect to a Triton server by naming it in the config"
            )
        package = importlib.util.find_spec(package_name)  # found, not imported: importing is slow
        if package is None or package.origin is None:
            raise TritonNotInstalled(
                "the embedded Triton is not installed: pip install 'spillway-gateway[embedded]', "
                "or connect to a Triton server by naming it in the config"
            )
        home = Path(package.origin).parent
        found = cls(
            binary=home / "tritonserver/bin/tritonserver",
            backend=home / "tritonserver/backends/python",
            stub=home / f"tritonserver/python_backend_stubs/{version}/triton_python_backend_stub",
            libraries=home.parent / "nvidia_pytriton.libs",
            site_packages=tuple(
                dict.fromkeys(
                    (home.parent, *(Path(sysconfig.get_path(k)) for k in ("purelib", "platlib")))
                )
            ),
        )
        for part in (found.binary, found.backend, found.stub):
            if not part.exists():
                raise TritonNotInstalled(
                    f"the installed nvidia-pytriton lacks {part.name} for Python {version}: "
                    "pip install --force-reinstall 'spillway-gateway[embedded]'"
                )
        return found

    def environment(self) -> dict[str, str]:
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # The stub embeds Python: it must load the library of the Python that runs now, not of
        # another one that happens to be on the machine.
        libraries = [self.libraries, Path(sysconfig.get_config_var("LIBDIR") or sys.base_prefix)]
        libraries.append(Path(sys.base_prefix, "lib"))
        # It ignores PYTHONPATH where it was built isolated (3.11), and derives its modules from the
        # first python3 in PATH: that has to be ours, or models import another Python's packages.
        path = [str(Path(sys.executable).parent), passed_on.get("PATH", os.defpath)]
        return passed_on | {
            "PATH": ":".join(path),
            "LD_LIBRARY_PATH": ":".join(map(str, dict.fromkeys(libraries))),
            "PYTHONPATH": ":".join(map(str, self.site_packages)),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }

    def backend_directory(self, under: Path) -> Path:
        """The wheel's Python backend joined with the stub of this Python, outside site-packages."""
        python = under / "backends/python"
        python.mkdir(parents=True)
        for part in self.backend.iterdir():
            if part.is_file():
                (python / part.name).symlink_to(part)
        (python / self.stub.name).symlink_to(self.stub)
        return python.parent

    def check(self, environment: Mapping[str, str]) -> None:
        """Without its libraries the stub fails once per model, each time after a long wait."""
        tried = subprocess.run(
            [self.stub],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if tried.returncode == 127:
            raise TritonNotInstalled(
                f"the Python stub of the embedded Triton does not start: {tried.stderr.strip()}. "
                "It needs Python's shared library (on Debian and Ubuntu: the package "
                f"libpython{sys.version_info.major}.{sys.version_info.minor})"
            )


# --- logs ---------------------------------------------------------------------------------------

_LINE = re.compile(
    r"(?P<level>[IWEF])\d{4} [\d:.]+ \d+ (?P<place>(?P<file>[\w.]+):\d+)\] ?(?P<text>.*)"
)
_LEVELS = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}
_LOADED = re.compile(r"successfully loaded '(?P<model>[^']+)'")
# Written before Triton listens, so before there can be a call; one of them always is.
_BEFORE_CALLS = frozenset({"tritonserver.cc", "grpc_server.cc", "http_server.cc"})
_STARTED = '"Started '  # ... Service at address:port
# Sources that write of the server's and its models' life, never of a call.
_WITHOUT_CONTENT = frozenset(
    {
        "main.cc",
        "metrics.cc",
        "model_lifecycle.cc",
        "model_repository_manager.cc",
        "server.cc",
        "stub_launcher.cc",
        "tritonserver.cc",
    }
)
# What Triton calls errors and warnings on every machine without a GPU.
_HARMLESS = ("CudaDriverHelper has not been initialized", "pinned system memory")


@dataclass(slots=True)
class LogFilter:
    """Decides what of the server's output may be logged: all, until the first call can come."""

    serving: bool = False
    listeners: int = 0  # how many of its ports the server said that it listens on

    def record(self, line: str) -> tuple[int, str] | None:
        line = line.rstrip()
        parts = _LINE.match(line)
        if parts is None:
            # A model's own output, or the tables that Triton draws.
            drawn = line.startswith(("+", "|"))
            return None if self.serving or drawn or not line else (logging.INFO, line)
        place, text, level = parts["place"], parts["text"], _LEVELS[parts["level"]]
        self.serving = self.serving or parts["file"] in _BEFORE_CALLS
        self.listeners += parts["file"] in _BEFORE_CALLS and text.startswith(_STARTED)
        if self.serving and not self._without_content(parts["file"], text):
            return level, f"{place} (message withheld: it may quote a call)"
        return logging.DEBUG if any(
            said in text for said in _HARMLESS
        ) else level, f"{place} {text}"

    @staticmethod
    def _without_content(file: str, text: str) -> bool:
        return file in _WITHOUT_CONTENT or (file in _BEFORE_CALLS and text.startswith(_STARTED))


# --- files --------------------------------------------------------------------------------------


class _Home:
    """A private directory and a prefix for shared memory, recognisable when their owner is gone.

    The owner holds a lock, which the kernel releases however it ends: so a later server of the same
    user finds what a killed gateway left in /tmp and /dev/shm, and takes it away.
    """

    _PREFIX = "spillway-triton-"
    _SETTLED_S = 10.0  # until then its owner may not have locked it yet

    def __init__(self) -> None:
        self._sweep()
        self.path = Path(tempfile.mkdtemp(prefix=self._PREFIX))
        self.shm = f"{self.path.name}-"
        self._lock = (self.path / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        self._remove(self.path)
        self._lock.close()

    @staticmethod
    def free_shared_memory(prefix: str) -> None:
        for segment in Path("/dev/shm").glob(f"{prefix}*"):
            segment.unlink(missing_ok=True)

    @classmethod
    def _remove(cls, path: Path) -> None:
        cls.free_shared_memory(f"{path.name}-")
        shutil.rmtree(path, ignore_errors=True)

    @classmethod
    def _sweep(cls) -> None:
        for path in Path(tempfile.gettempdir()).glob(f"{cls._PREFIX}*"):
            with contextlib.suppress(OSError):  # locked, another user's, or just removed
                status = path.lstat()
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > cls._SETTLED_S:
                    with (path / "lock").open("r+") as lock:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        cls._remove(path)


# --- one process --------------------------------------------------------------------------------


class _Process:
    """One run of the server: its process group, its output and its end."""

    def __init__(self, command: list[str], environment: Mapping[str, str], shm: str) -> None:
        self.log = LogFilter()
        self.loaded: list[str] = []
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._shm = shm
        self._reaping = threading.Lock()
        self._reaped = False
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._popen.stdout is not None
        for work, argument in (
            (self._read, self._popen.stdout),
            (self._wait, self.exited.get_loop()),
        ):
            threading.Thread(target=work, args=(argument,), name="triton", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def signal(self, number: signal.Signals) -> None:
        """To the server alone, so that it can end its stubs; SIGKILL goes to the whole group."""
        with self._reaping:
            if self._reaped:  # its number may be another process's by now
                return
            if number is signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    async def end(self, grace_s: float) -> None:
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.exited), grace_s)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await asyncio.shield(self.exited)
        except asyncio.CancelledError:
            self.signal(signal.SIGKILL)
            raise

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for raw in output:
                line = raw.decode("utf-8", "replace")
                if (model := _LOADED.search(line)) and not self.log.serving:
                    self.loaded.append(model["model"])
                if record := self.log.record(line):
                    logger.log(*record)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        # Left unreaped until its group is dead: so long the number cannot name another group.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            os.killpg(self.pid, signal.SIGKILL)
            self._reaped = True
            code = self._popen.wait()
        self._await_stubs()
        _Home.free_shared_memory(self._shm)
        with contextlib.suppress(RuntimeError):  # the loop may be closed already
            loop.call_soon_threadsafe(self._note_exit, code)

    def _await_stubs(self) -> None:
        """A stub that is still dying may still be making shared memory."""
        give_up = time.monotonic() + _KILL_MARGIN_S
        while _living(self.pid) and time.monotonic() < give_up:
            time.sleep(_POLL_S / 5)

    def _note_exit(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


def _living(group: int) -> bool:
    """Whether a process group has members that are more than zombies, which nobody may reap."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, leader = stat.read_text().rpartition(")")[2].split()[:3]
            if int(leader) == group and state not in "ZX":
                return True
    return False


# --- the supervised server ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loading:
    """How far a start has come, for a progress bar."""

    loaded: tuple[str, ...]
    total: int


@dataclass(slots=True)
class _Backoff:
    options: TritonOptions
    _next_s: float = field(default=0.0)

    def pause_s(self, up_s: float) -> float:
        if up_s >= self.options.backoff_forgotten_s or not self._next_s:
            self._next_s = self.options.backoff_first_s
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self.options.backoff_cap_s)
        return pause_s


class TritonServer:
    """A tritonserver process that is kept up until `aclose`.

    >>> async with TritonServer(TritonOptions(repositories=(Path("models"),))) as server:
    ...     server.ports.grpc
    """

    def __init__(
        self,
        options: TritonOptions,
        *,
        on_state: Callable[[ServerState], None] | None = None,
        on_loading: Callable[[Loading], None] | None = None,
    ) -> None:
        self._options = options
        self._on_state = on_state
        self._on_loading = on_loading
        self._state = ServerState.STOPPED
        self._ports = options.ports
        self._process: _Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._restarts = 0
        self._unavailable: Mapping[str, str] = MappingProxyType({})
        self._home: _Home | None = None
        self._command: list[str] = []
        self._environment: dict[str, str] = {}

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def ports(self) -> Ports:
        """Fixed from the first start on, also over restarts."""
        return self._ports

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def restarts(self) -> int:
        return self._restarts

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The models that did not load, each with Triton's reason."""
        return self._unavailable

    async def __aenter__(self) -> TritonServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def start(self) -> Ports:
        """Returns once the server listens with its models loaded; from then on it is supervised."""
        if self._state is not ServerState.STOPPED:
            raise TritonServerError(
                f"the embedded Triton was started already ({self._state.value})"
            )
        try:
            await self._prepare()
            await self._start_process()
        except BaseException:
            await self._release()
            self._enter(ServerState.FAILED)
            raise
        self._supervisor = asyncio.create_task(self._supervise(), name="triton-supervisor")
        return self._ports

    async def restart(self, reason: str) -> None:
        """Ends the server and returns once another one is up; concurrent calls share one restart.

        For a server that runs but does not work: only those who send inferences can tell. If the
        new one fails to start it is tried again, without end: the caller bounds the wait.
        """
        if self._supervisor is None or self._supervisor.done():
            raise TritonServerError(
                f"the embedded Triton is {self._state.value}: it cannot restart"
            )
        if self._state is ServerState.UP and self._process is not None:
            logger.warning("restarting Triton: %s", reason)
            process = self._process
            self._enter(
                ServerState.STARTING
            )  # from here on other callers wait for the same restart
            await process.end(self._options.restart_grace_s)
        while self._state is not ServerState.UP:
            if self._supervisor.done():
                raise TritonServerError("the embedded Triton was closed while it restarted")
            await self._changed.wait()

    async def aclose(self) -> None:
        """Ends the server and all its processes; safe to call twice."""
        if self._state is ServerState.CLOSED:
            return
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
        await self._release()
        self._enter(ServerState.CLOSED)

    # --- inside

    def _enter(self, state: ServerState) -> None:
        if state is self._state:
            return
        self._state = state
        self._changed.set()
        self._changed = asyncio.Event()
        if self._on_state is not None:
            self._on_state(state)

    async def _prepare(self) -> None:
        installation = Installation.find()
        for repository in self._options.repositories:
            if not repository.is_dir():
                raise TritonServerError(f"the model repository {repository} is not a directory")
        self._environment = installation.environment()
        await asyncio.to_thread(installation.check, self._environment)
        self._home = await asyncio.to_thread(_Home)
        self._ports = _free_ports(self._options.ports)
        self._command = self._command_line(installation, self._home)

    def _command_line(self, installation: Installation, home: _Home) -> list[str]:
        options, ports = self._options, self._ports
        backends = installation.backend_directory(home.path)
        command = [
            str(installation.binary),
            *(f"--model-repository={path.resolve()}" for path in options.repositories),
            f"--backend-directory={backends}",
            f"--backend-config=python,shm-default-byte-size={options.shm_per_model_bytes}",
            f"--backend-config=python,shm-growth-byte-size={options.shm_per_model_bytes}",
            f"--backend-config=python,shm-region-prefix-name={home.shm}",
            "--exit-on-error=false",
            f"--exit-timeout-secs={max(1, round(options.stop_grace_s))}",
            f"--http-address={_LOOPBACK}",
            f"--http-port={ports.http}",
            f"--http-thread-count={options.http_threads}",
            f"--grpc-address={_LOOPBACK}",
            f"--grpc-port={ports.grpc}",
            f"--metrics-address={_LOOPBACK}",
            f"--metrics-port={ports.metrics}",
            "--log-verbose=0",
        ]
        if not options.complete_configs:
            command += ["--disable-auto-complete-config"]
        if not Path("/dev/nvidiactl").exists():
            # Looking for GPUs that are not there costs warnings in every log.
            command += ["--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0"]
        if options.models:
            command += ["--model-control-mode=explicit"]
            command += [f"--load-model={name}" for name in options.models]
        return command

    async def _start_process(self) -> None:
        self._enter(ServerState.STARTING)
        assert self._home is not None
        process = _Process(self._command, self._environment, self._home.shm)
        self._process = process
        try:
            async with asyncio.timeout(self._options.start_timeout_s), self._client() as client:
                await self._until_listening(process, client)
                self._unavailable = await self._failed_models(client)
        except TimeoutError as late:
            await process.end(0.0)
            raise TritonStartError(
                f"Triton did not listen within {self._options.start_timeout_s:g} s"
            ) from late
        except Exception:
            await process.end(0.0)
            raise
        process.log.serving = True  # the log said so already; calls must not depend on its words
        for model, reason in self._unavailable.items():
            logger.error("Triton serves without the model %s: %s", model, reason.split("\n")[0])
        self._enter(ServerState.UP)

    async def _until_listening(self, process: _Process, client: httpx.AsyncClient) -> None:
        """Triton listens after the last model was loaded, or has failed to."""
        total, told = self._models_expected(), -1
        # Its own word first: on a port that was taken, it would be another server that answers.
        while process.log.listeners < len(fields(Ports)) or not await self._answers(client):
            if process.exited.done():
                raise TritonStartError(
                    f"Triton ended with status {process.exited.result()} before it listened; "
                    "its log says why"
                )
            if self._on_loading is not None and len(process.loaded) != told:
                told = len(process.loaded)
                self._on_loading(Loading(tuple(process.loaded), total))
            await asyncio.wait({process.exited}, timeout=_POLL_S)
        if self._on_loading is not None:
            self._on_loading(Loading(tuple(process.loaded), total))

    def _models_expected(self) -> int:
        configs = (path.glob("*/config.pbtxt") for path in self._options.repositories)
        return len(self._options.models) or sum(1 for _ in itertools.chain.from_iterable(configs))

    async def _answers(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get("/v2/health/live")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    async def _failed_models(self, client: httpx.AsyncClient) -> Mapping[str, str]:
        try:
            index = (await client.post("/v2/repository/index", json={})).json()
        except httpx.TransportError as gone:
            raise TritonStartError("Triton went away right after it began to listen") from gone
        wanted = set(self._options.models)
        failed = {
            model["name"]: model.get("reason", "not loaded")
            for model in index
            if model.get("state") != "READY" and (not wanted or model["name"] in wanted)
        }
        return MappingProxyType(failed)

    def _client(self) -> httpx.AsyncClient:
        # Without the environment: it may name a proxy, even for the loopback address. Without the
        # certificates of the world: nothing here is encrypted, and reading them takes 100 ms.
        return httpx.AsyncClient(
            base_url=f"http://{_LOOPBACK}:{self._ports.http}",
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            timeout=2.0,
        )

    async def _supervise(self) -> None:
        backoff = _Backoff(self._options)
        while True:
            process, up_since = self._process, time.monotonic()
            assert process is not None
            code = await asyncio.shield(process.exited)
            if self._state is ServerState.UP:
                logger.error("Triton ended by itself with status %s", code)
                await self._back_off(backoff.pause_s(time.monotonic() - up_since))
            while not await self._came_back():
                await self._back_off(backoff.pause_s(0.0))

    async def _came_back(self) -> bool:
        self._restarts += 1
        try:
            await self._start_process()
        except TritonStartError as error:
            logger.error("Triton did not come back: %s", error)
            return False
        except Exception:  # whatever it is, on-prem stays the only place for restricted calls
            logger.exception("Triton did not come back")
            return False
        return True

    async def _back_off(self, pause_s: float) -> None:
        self._enter(ServerState.BACKING_OFF)
        logger.info("starting Triton again in %.1f s", pause_s)
        await asyncio.sleep(pause_s)

    async def _release(self) -> None:
        if self._process is not None:
            await self._process.end(self._options.stop_grace_s + _KILL_MARGIN_S)
            self._process = None
        if self._home is not None:
            self._home.close()
            self._home = None


def _free_ports(wanted: Ports) -> Ports:
    """Fills in free ports for the zeros, all held until the last is known so that they differ."""
    with contextlib.ExitStack() as held:

        def free() -> int:
            listener = held.enter_context(socket.socket())
            listener.bind((_LOOPBACK, 0))
            return int(listener.getsockname()[1])

        return Ports(wanted.http or free(), wanted.grpc or free(), wanted.metrics or free())
