"""The Triton servers that the gateway carries: started before it listens, restarted when gray."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gateway.config import ConfigError, Settings
from gateway.core.deadline import Clock
from gateway.endpoints.triton import TritonServerError
from gateway.endpoints.triton.server.options import Loading, TritonOptions
from gateway.endpoints.triton.server.states import Backoff, ServerState

if TYPE_CHECKING:
    from gateway.endpoints.triton.providers import Provided
    from gateway.endpoints.triton.server.ports import TritonPorts
    from gateway.endpoints.triton.server.server import FallBack, TritonServer

log = logging.getLogger(__name__)

Progress = Callable[[str], None]
Restart = Callable[[str, str], None]
"""With the name of the model at the server, and the reason."""
_REVIVED_S = 60.0  # a model that was loaded anew and dies within takes the whole server along
_RESTART_PAUSE_S = 2.0  # between two restarts of a gray server; doubles while they do not help


class EmbeddedServer(Protocol):
    """An embedded server, as whoever calls it sees it."""

    @property
    def ports(self) -> TritonPorts: ...
    @property
    def control_headers(self) -> Mapping[str, str]: ...
    @property
    def provided(self) -> tuple[Provided, ...]: ...
    def back_in_s(self) -> float | None: ...


class SupervisorPort(Protocol):
    """Who has the embedded servers: this process, or the parent of this worker."""

    moved: Callable[[str], None]
    heard: Callable[[str], int]

    def get(self, name: str) -> EmbeddedServer | None: ...
    def metrics_port(self, name: str) -> int | None: ...
    def restarter(self, name: str) -> Restart:
        """To be called when it is up and a model of it does not work."""
        ...

    async def start(self, stack: contextlib.AsyncExitStack) -> None: ...


class TritonSupervisor:
    """`spawn` runs a coroutine beside; `restarted` counts; `fall_back` is made for each repository;
    `moved` is told of a server that came up or went down, and `heard` says how many answers an
    endpoint has given."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        progress: Progress,
        spawn: Callable[[Any], None],
        restarted: Callable[[], None],
        fall_back: Callable[[Path], FallBack],
    ) -> None:
        self._fall_back = fall_back
        self._settings = settings
        self._clock = clock
        self._progress = progress
        self._spawn = spawn
        self._restarted = restarted
        self._servers: dict[str, TritonServer] = {}
        self.moved: Callable[[str], None] = lambda name: None
        self.heard: Callable[[str], int] = lambda name: 0

    @property
    def servers(self) -> Mapping[str, TritonServer]:
        return self._servers

    def get(self, name: str) -> TritonServer | None:
        return self._servers.get(name)

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Raises ConfigError or TritonServerError."""
        embedded = {n: e for n, e in self._settings.endpoints.items() if e.embedded}
        if not embedded:
            return
        # nobody else needs it
        from gateway.endpoints.triton.server.server import TritonServer

        for name, endpoint in embedded.items():
            repository = endpoint.repository or Path("models")
            check_repository(name, repository)
            server = TritonServer(
                TritonOptions(
                    repositories=(repository,),
                    reload=endpoint.reload,
                    silent_s=self._settings.health.embedded_silent_s,
                ),
                on_state=functools.partial(self._server_state, name),
                on_loading=self._loading,
                on_silent=self._restarted,
                heard=functools.partial(self._heard, name),
                fall_back=self._fall_back(repository),
            )
            self._progress(f"starting Triton over {repository}")
            await stack.enter_async_context(server)
            for model, why in server.unavailable.items():
                log.warning("Triton does not serve %s: %s", model, why)
            self._servers[name] = server

    def _loading(self, loading: Loading) -> None:
        self._progress(f"starting Triton: {len(loading.loaded)} of {loading.total} models")

    def _server_state(self, name: str, state: ServerState) -> None:
        if state in (ServerState.UP, ServerState.BACKING_OFF):
            self.moved(name)

    def _heard(self, name: str) -> int:
        return self.heard(name)

    def metrics_port(self, name: str) -> int | None:
        server = self._servers.get(name)
        return None if server is None else server.ports.metrics

    def restarter(self, name: str) -> Restart:
        server = self._servers[name]
        pauses = Backoff(TritonOptions((), backoff_first_s=_RESTART_PAUSE_S))
        last_s, not_before_s = -math.inf, -math.inf
        revived_s: dict[str, float] = {}

        def restart(model: str, reason: str) -> None:
            nonlocal last_s, not_before_s
            now_s = self._clock()
            if now_s < not_before_s:
                return
            not_before_s = now_s + pauses.pause_s(now_s - last_s)
            last_s = now_s
            alone = now_s - revived_s.get(model, -math.inf) >= _REVIVED_S
            revived_s[model] = now_s
            self._spawn(self._restart(name, server, model if alone else "", reason))

        return restart

    async def _restart(self, name: str, server: TritonServer, model: str, reason: str) -> None:
        """The model alone, where one is named and the server allows it."""
        try:
            if model and await server.revive(model):
                log.warning("%s: loaded %s anew: %s", name, model, reason)
                self.moved(name)
            else:
                self._restarted()
                await server.restart(reason)
        except TritonServerError as exc:
            log.error("%s: %s", name, str(exc))


def check_repository(name: str, repository: Path) -> None:
    if not repository.is_dir():
        raise ConfigError(
            f"endpoints.{name}.repository: there is no directory {repository}; run this where "
            "models/ lies, or name your model repository"
        )
