"""The embedded Triton: starts a real tritonserver from the `nvidia-pytriton` wheel and keeps it up.

What it promises, and what it does not:

- `ServerState.UP` means that the process runs, has loaded its models and listens. It is **not** a
  health check, and nothing here claims to be one: after its Python stub dies, Triton 2.51 goes on
  answering 200 on `/v2/health/ready` while every inference fails. Only inferences show health, so
  whoever sends them calls `revive(model)`, or `restart(reason)`, when they fail.
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
import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType, TracebackType
from typing import Protocol

from gateway.core import ambient
from gateway.endpoints.triton import TritonServerError, TritonStartError, control
from gateway.endpoints.triton.providers import Provided
from gateway.endpoints.triton.server.client import TritonClient
from gateway.endpoints.triton.server.launch import TritonLaunch
from gateway.endpoints.triton.server.options import Loading, TritonOptions
from gateway.endpoints.triton.server.ports import LOOPBACK, TritonPorts
from gateway.endpoints.triton.server.process import KILL_MARGIN_S, TritonProcess
from gateway.endpoints.triton.server.pulse import Pulse
from gateway.endpoints.triton.server.states import Backoff, ServerState, StateHistory

logger = logging.getLogger("gateway.triton")

_POLL_S = 0.05


class FallBack(Protocol):
    """Takes versions that do not work out of the repository. It may wait."""

    def before_start(self) -> None:
        """Those with which no server would come up."""

    def after_start(self, url: str, failed: Mapping[str, str]) -> bool:
        """`failed`: the models that the server at `url` did not load, and why. Whether others are
        there now, to be loaded by a start anew."""


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
        on_loading: Callable[[Loading], None] = lambda loading: None,
        on_silent: Callable[[], None] = lambda: None,
        heard: Callable[[], int] = lambda: 0,
        fall_back: FallBack | None = None,
    ) -> None:
        """`heard` grows with every answer that callers get: such a server is not silent."""
        self._options = options
        self._on_loading = on_loading
        self._on_silent = on_silent
        self._heard = heard
        self._fall_back = fall_back
        self._history = StateHistory(on_state)
        self._launch: TritonLaunch | None = None
        self._process: TritonProcess | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._observers: list[asyncio.Task[None]] = []
        self._key = ambient.random_hex(32) if options.reload else ""
        self.control_headers: Mapping[str, str] = control.headers(self._key)
        """What a call needs that asks for the list of models; empty without `reload`."""
        self.unavailable: Mapping[str, str] = MappingProxyType({})
        """The models that did not load, each with Triton's reason."""
        self.provided: tuple[Provided, ...] = ()
        """What its models run on, of those that say it; renewed every so often."""
        self.back_in_s = self._history.back_in_s

    @property
    def state(self) -> ServerState:
        return self._history.state

    @property
    def ports(self) -> TritonPorts:
        """Fixed from the first start on, also over restarts."""
        return self._options.ports if self._launch is None else self._launch.ports

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def restarts(self) -> int:
        return self._history.restarts

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
        if self.state is not ServerState.STOPPED:
            raise TritonServerError(f"the embedded Triton was started already ({self.state.value})")
        try:
            self._launch = await self._prepare()
            await self._start_process(self._launch)
        except BaseException:
            await self._release()
            self._history.enter(ServerState.FAILED)
            raise
        self._supervisor = asyncio.create_task(
            self._supervise(self._launch), name="triton-supervisor"
        )
        self._observers = [
            asyncio.create_task(self._renew_providers(), name="triton-onlooker"),
            asyncio.create_task(self._listen(), name="triton-listener"),
        ]
        return self.ports

    async def restart(self, reason: str) -> None:
        """Ends the server and returns once another one is up; concurrent calls share one restart.

        For a server that runs but does not work: only those who send inferences can tell. If the
        new one fails to start it is tried again, without end: the caller bounds the wait.
        """
        if self._supervisor is None or self._supervisor.done():
            raise TritonServerError(f"the embedded Triton is {self.state.value}: it cannot restart")
        if self.state is ServerState.UP and self._process is not None:
            logger.warning("restarting Triton: %s", reason)
            process = self._process
            self._history.enter(ServerState.STARTING)  # others wait for the same restart from here
            await process.end(self._options.restart_grace_s)
        while self.state is not ServerState.UP:
            if self._supervisor.done():
                raise TritonServerError("the embedded Triton was closed while it restarted")
            await self._history.changed.wait()

    async def revive(self, model: str) -> bool:
        """Loads a model anew whose process has died, while the others go on serving. False where
        that cannot be: the server takes nothing while it runs (`reload`), or failed to."""
        if not self._key or self.state is not ServerState.UP:
            return False
        async with self._client() as client:
            return await client.replaced(model, self._options.start_timeout_s)

    async def aclose(self) -> None:
        """Ends the server and all its processes; safe to call twice."""
        if self.state is ServerState.CLOSED:
            return
        for task in (*self._observers, self._supervisor):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._release()
        self._history.enter(ServerState.CLOSED)

    # --- inside

    async def _prepare(self) -> TritonLaunch:
        return await TritonLaunch.prepare(self._options, self._key)

    async def _start_process(self, launch: TritonLaunch) -> None:
        self._history.enter(ServerState.STARTING)
        if self._fall_back is not None:
            await asyncio.to_thread(self._fall_back.before_start)  # guard: R2.start-code
        self._process = process = launch.start()
        try:
            async with asyncio.timeout(self._options.start_timeout_s), self._client() as client:
                await _until_listening(
                    process, client, self._options.models_expected(), self._on_loading
                )
                self.unavailable = await client.failed_models(self._options.models)
                self.provided = await client.providers(self.provided)
        except TimeoutError as late:
            await process.end(0.0)
            raise TritonStartError(
                f"Triton did not listen within {self._options.start_timeout_s:g} s"
            ) from late
        except Exception:
            await process.end(0.0)
            raise
        if self._fall_back is not None:
            url = f"http://{LOOPBACK}:{launch.ports.http}"
            # guard: R2.start-fallback
            if await asyncio.to_thread(self._fall_back.after_start, url, self.unavailable):
                await process.end(0.0)
                await self._start_process(launch)
                return
        process.log.serving = True  # the log said so already; calls must not depend on its words
        repositories = tuple(str(path.resolve()) for path in self._options.repositories)
        control.TritonControl(launch.ports.http, self._key, repositories).publish(launch.home.path)
        for model, reason in self.unavailable.items():
            logger.error("Triton serves without the model %s: %s", model, reason.split("\n")[0])
        self._history.enter(ServerState.UP)

    def _client(self) -> TritonClient:
        return TritonClient(self.ports, self.control_headers)

    async def _supervise(self, launch: TritonLaunch) -> None:
        backoff = Backoff(self._options)
        while True:
            process, up_since = self._process, ambient.monotonic_s()
            assert process is not None
            code = await asyncio.shield(process.exited)
            if self.state is ServerState.UP:
                logger.error("Triton ended by itself with status %s", code)
                await self._back_off(backoff.pause_s(ambient.monotonic_s() - up_since))
            while not await self._recovered(launch):
                await self._back_off(backoff.pause_s(0.0))

    async def _listen(self) -> None:
        async with self._client() as client:
            pulse = Pulse(client.http, self._options.silent_s, self._heard)
            while True:
                await pulse.lost(lambda: self.state is ServerState.UP)
                self._on_silent()
                await self.restart(f"it has answered nothing for {self._options.silent_s:g} s")

    async def _renew_providers(self) -> None:
        """Models are loaded anew while it runs."""
        async with self._client() as client:
            while True:
                await asyncio.sleep(self._options.poll_s)
                if self.state is ServerState.UP:
                    self.provided = await client.providers(self.provided)

    async def _recovered(self, launch: TritonLaunch) -> bool:
        self._history.restarts += 1
        try:
            await self._start_process(launch)
        except TritonStartError as error:
            logger.error("Triton did not come back: %s", str(error))
            return False
        except Exception:  # whatever it is, on-prem stays the only place for restricted calls
            logger.exception("Triton did not come back")
            return False
        return True

    async def _back_off(self, pause_s: float) -> None:
        self._history.back_off(pause_s)
        logger.info("starting Triton again in %.1f s", pause_s)
        await asyncio.sleep(pause_s)

    async def _release(self) -> None:
        if self._process is not None:
            await self._process.end(self._options.stop_grace_s + KILL_MARGIN_S)
            self._process = None
        if self._launch is not None:
            self._launch.close()


async def _until_listening(
    process: TritonProcess,
    client: TritonClient,
    total: int,
    on_loading: Callable[[Loading], None],
) -> None:
    """Triton listens after the last model was loaded, or has failed to."""
    reported = -1
    # Its own word first: on a port that was taken, it would be another server that answers.
    while process.log.listeners < len(fields(TritonPorts)) or not await client.lives():
        if process.exited.done():
            raise TritonStartError(
                f"Triton ended with status {process.exited.result()} before it listened; "
                "its log says why"
            )
        if len(process.loaded) != reported:
            reported = len(process.loaded)
            on_loading(Loading(tuple(process.loaded), total))
        await asyncio.wait({process.exited}, timeout=_POLL_S)
    on_loading(Loading(tuple(process.loaded), total))
