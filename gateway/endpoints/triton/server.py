"""The embedded Triton: starts a real tritonserver from the `nvidia-pytriton` wheel and keeps it up.

What it promises, and what it does not:

- `ServerState.UP` means that the process runs, has loaded its models and listens. It is **not** a
  health check, and nothing here claims to be one: after its Python stub dies, Triton 2.51 goes on
  answering 200 on `/v2/health/ready` while every inference fails. Only inferences show health, so
  whoever sends them calls `restart(reason)` when they fail.
- A process that ends by itself is started again on the same ports, after a pause that doubles up to
  a cap. One that answers nothing at all for `silent_s` (stopped, or hung) is killed and started
  again.
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
import itertools
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType, TracebackType

import httpx

from gateway.core import ambient
from gateway.endpoints.triton import TritonServerError, TritonStartError, control, providers
from gateway.endpoints.triton.home import ServerDirectory
from gateway.endpoints.triton.installation import Installation
from gateway.endpoints.triton.ports import ANY_PORTS, TritonPorts, reserve_ports
from gateway.endpoints.triton.process import KILL_MARGIN_S, TritonProcess
from gateway.endpoints.triton.providers import Provided
from gateway.endpoints.triton.pulse import Pulse

logger = logging.getLogger("gateway.triton")

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
_FIRST_START_S = 2.0  # expected of a start until one has been seen
_SETTLING_S = 5.0  # after a start, until whoever asks has seen that it infers
_SETTLED_S = 0.3


class ServerState(enum.Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    UP = "up"  # listens, with its models loaded; says nothing about whether inference works
    BACKING_OFF = "backing_off"
    FAILED = "failed"  # the first start did not succeed: something is wrong with the set-up
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class TritonOptions:
    repositories: tuple[Path, ...]
    models: tuple[str, ...] = ()  # empty: every model of the repositories
    reload: bool = False  # every model, and new versions while it runs (control.py)
    ports: TritonPorts = ANY_PORTS  # kept over restarts
    start_timeout_s: float = 90.0
    stop_grace_s: float = 10.0  # for calls in flight, on aclose
    restart_grace_s: float = 1.0  # a gray server has little left to finish
    poll_s: float = 15.0  # between two looks at what its models run on
    silent_s: float = 10.0  # without any answer for so long it is restarted
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
class Loading:
    """How far a start has come, for a progress bar."""

    loaded: tuple[str, ...]
    total: int


@dataclass(slots=True)
class Backoff:
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
        on_silent: Callable[[], None] | None = None,
        heard: Callable[[], int] = lambda: 0,
    ) -> None:
        """`heard` grows with every answer that callers get: such a server is not silent."""
        self._options = options
        self._on_state = on_state
        self._on_loading = on_loading
        self._on_silent = on_silent
        self._heard = heard
        self._state = ServerState.STOPPED
        self._entered_s = 0.0
        self._start_took_s = _FIRST_START_S
        self._pause_s = 0.0
        self._ports = options.ports
        self._reserved_ports = contextlib.ExitStack()
        self._process: TritonProcess | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._onlooker: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._restarts = 0
        self._unavailable: Mapping[str, str] = MappingProxyType({})
        self._provided: tuple[Provided, ...] = ()
        self._has_gpu = Path("/dev/nvidiactl").exists()
        self._home: ServerDirectory | None = None
        self._command: list[str] = []
        self._environment: dict[str, str] = {}
        self._key = ambient.random_hex(32) if options.reload else ""

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def ports(self) -> TritonPorts:
        """Fixed from the first start on, also over restarts."""
        return self._ports

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def control_headers(self) -> Mapping[str, str]:
        """What a call needs that asks for the list of models; empty without `reload`."""
        return control.headers(self._key)

    @property
    def restarts(self) -> int:
        return self._restarts

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The models that did not load, each with Triton's reason."""
        return self._unavailable

    @property
    def provided(self) -> tuple[Provided, ...]:
        """What its models run on, of those that say it; renewed every so often."""
        return self._provided

    def back_in_s(self) -> float | None:
        """Seconds until it is expected to infer again; None: it is up, or nobody knows."""
        since_s = ambient.monotonic_s() - self._entered_s
        if self._state is ServerState.STARTING:
            return max(_SETTLED_S, self._start_took_s - since_s)
        if self._state is ServerState.BACKING_OFF:
            return max(0.0, self._pause_s - since_s) + self._start_took_s
        if self._state is ServerState.UP and self._restarts and since_s < _SETTLING_S:
            return _SETTLED_S
        return None

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

    async def start(self) -> TritonPorts:
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
        self._listener = asyncio.create_task(self._listen(), name="triton-listener")
        self._onlooker = asyncio.create_task(self._poll(), name="triton-onlooker")
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
            self._enter(ServerState.STARTING)  # from here on others wait for the same restart
            await process.end(self._options.restart_grace_s)
        while self._state is not ServerState.UP:
            if self._supervisor.done():
                raise TritonServerError("the embedded Triton was closed while it restarted")
            await self._changed.wait()

    async def aclose(self) -> None:
        """Ends the server and all its processes; safe to call twice."""
        if self._state is ServerState.CLOSED:
            return
        for task in (self._onlooker, self._listener, self._supervisor):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._release()
        self._enter(ServerState.CLOSED)

    # --- inside

    def _enter(self, state: ServerState) -> None:
        if state is self._state:
            return
        now_s = ambient.monotonic_s()
        if state is ServerState.UP:
            self._start_took_s = now_s - self._entered_s
        self._state, self._entered_s = state, now_s
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
        self._home = await asyncio.to_thread(ServerDirectory)
        self._ports = reserve_ports(self._options.ports, self._reserved_ports)
        self._command = self._command_line(installation, self._home)

    def _command_line(self, installation: Installation, home: ServerDirectory) -> list[str]:
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
        if not self._has_gpu:
            # Looking for GPUs that are not there costs warnings in every log.
            command += ["--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0"]
        if options.reload:
            command += control.options(self._key)
        elif options.models:
            command += ["--model-control-mode=explicit"]
            command += [f"--load-model={name}" for name in options.models]
        return command

    async def _start_process(self) -> None:
        self._enter(ServerState.STARTING)
        assert self._home is not None
        process = TritonProcess(self._command, self._environment, self._home.shm)
        self._process = process
        try:
            async with asyncio.timeout(self._options.start_timeout_s), self._client() as client:
                await self._until_listening(process, client)
                self._unavailable = await self._failed_models(client)
                await self._ask_providers(client)
        except TimeoutError as late:
            await process.end(0.0)
            raise TritonStartError(
                f"Triton did not listen within {self._options.start_timeout_s:g} s"
            ) from late
        except Exception:
            await process.end(0.0)
            raise
        process.log.serving = True  # the log said so already; calls must not depend on its words
        self._control().publish(self._home.path)
        for model, reason in self._unavailable.items():
            logger.error("Triton serves without the model %s: %s", model, reason.split("\n")[0])
        self._enter(ServerState.UP)

    def _control(self) -> control.TritonControl:
        repositories = tuple(str(path.resolve()) for path in self._options.repositories)
        return control.TritonControl(self._ports.http, self._key, repositories)

    async def _until_listening(self, process: TritonProcess, client: httpx.AsyncClient) -> None:
        """Triton listens after the last model was loaded, or has failed to."""
        total, reported = self._models_expected(), -1
        # Its own word first: on a port that was taken, it would be another server that answers.
        while process.log.listeners < len(fields(TritonPorts)) or not await self._answers(client):
            if process.exited.done():
                raise TritonStartError(
                    f"Triton ended with status {process.exited.result()} before it listened; "
                    "its log says why"
                )
            if self._on_loading is not None and len(process.loaded) != reported:
                reported = len(process.loaded)
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

    async def _ask_providers(self, client: httpx.AsyncClient) -> None:
        try:
            answer = await client.get(f"http://{_LOOPBACK}:{self._ports.metrics}/metrics")
        except httpx.TransportError:
            return  # its metrics are no reason to doubt the server; the next look may be answered
        before, self._provided = set(self._provided), providers.read(answer.text)
        for one in (p for p in self._provided if p not in before):
            in_vain = one.provider == providers.ON_CPU and self._has_gpu
            logger.log(
                logging.WARNING if in_vain else logging.INFO,
                "%s %s runs %s on %s, %d threads%s",
                one.model, one.version, one.graph, one.provider, one.threads,
                ", though there is a GPU: spillway doctor says what is missing" if in_vain else "",
            )  # fmt: skip

    def _client(self) -> httpx.AsyncClient:
        # Without the environment: it may name a proxy, even for the loopback address. Without the
        # certificates of the world: nothing here is encrypted, and reading them takes 100 ms.
        return httpx.AsyncClient(
            base_url=f"http://{_LOOPBACK}:{self._ports.http}",
            headers=self.control_headers,
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            timeout=2.0,
        )

    async def _supervise(self) -> None:
        backoff = Backoff(self._options)
        while True:
            process, up_since = self._process, ambient.monotonic_s()
            assert process is not None
            code = await asyncio.shield(process.exited)
            if self._state is ServerState.UP:
                logger.error("Triton ended by itself with status %s", code)
                await self._back_off(backoff.pause_s(ambient.monotonic_s() - up_since))
            while not await self._recovered():
                await self._back_off(backoff.pause_s(0.0))

    async def _listen(self) -> None:
        async with self._client() as client:
            pulse = Pulse(client, self._options.silent_s, self._heard)
            while True:
                await pulse.lost(lambda: self._state is ServerState.UP)
                if self._on_silent is not None:
                    self._on_silent()
                await self.restart(f"it has answered nothing for {self._options.silent_s:g} s")

    async def _poll(self) -> None:
        """Models are loaded anew while it runs."""
        async with self._client() as client:
            while True:
                await asyncio.sleep(self._options.poll_s)
                if self._state is ServerState.UP:
                    await self._ask_providers(client)

    async def _recovered(self) -> bool:
        self._restarts += 1
        try:
            await self._start_process()
        except TritonStartError as error:
            logger.error("Triton did not come back: %s", str(error))
            return False
        except Exception:  # whatever it is, on-prem stays the only place for restricted calls
            logger.exception("Triton did not come back")
            return False
        return True

    async def _back_off(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._enter(ServerState.BACKING_OFF)
        logger.info("starting Triton again in %.1f s", pause_s)
        await asyncio.sleep(pause_s)

    async def _release(self) -> None:
        if self._process is not None:
            await self._process.end(self._options.stop_grace_s + KILL_MARGIN_S)
            self._process = None
        if self._home is not None:
            self._home.close()
            self._home = None
        self._reserved_ports.close()
