"""Asks every endpoint, for ever, whether it is up, and what it has when it comes up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from gateway.accounting.metrics import Metrics
from gateway.core import ambient
from gateway.core.errors import GatewayError
from gateway.core.tasks import run_together
from gateway.endpoints.state import EndpointState

log = logging.getLogger(__name__)

_ONPREM_PATIENCE_S = 0.7  # with the default pause between probes, silent twice within 2 s
_LAG_S = 0.25  # a timeout that comes so late says more of this process than of the endpoint

Learn = Callable[[str, EndpointState], Awaitable[bool]]
"""Reads what a server has when it comes up: its models, their batch sizes and their tensors.
Whether that was all; else it is asked again some probes later."""
_PROBES_BETWEEN = 20


class Watch:
    def __init__(self, states: Mapping[str, EndpointState], learn: Learn, metrics: Metrics) -> None:
        self._states = states
        self._learn_from = learn
        self._metrics = metrics
        self._unlearnt: dict[str, int] = {}  # probes until a server is asked again

    async def run(self) -> None:
        await run_together(*map(self._run_one, self._states))

    async def _run_one(self, name: str) -> None:
        while True:
            await asyncio.sleep(self._states[name].settings.probe_s)
            await self.probe(name)

    async def probe_all(self) -> None:
        await asyncio.gather(*(self.probe(name) for name in self._states))

    async def probe(self, name: str) -> None:
        """One look at an endpoint. A refusal counts at once; silence when it comes twice, unless
        calls were answered meanwhile: then the server is busy."""
        state = self._states[name]
        heard = state.heard
        answer = await self._ask(state)
        if answer is None and state.up:
            answer = await self._ask(state)
            if answer is None and state.heard != heard:
                return
        up = bool(answer)
        if up and (not state.up or self._is_due(name)):
            await self.learn(name)
        if up != state.up:
            log.log(logging.INFO if up else logging.WARNING, "%s: %s", name, "up" if up else "down")
        if up and not state.up:
            state.server_up()
        elif not up and state.up:
            state.went_down()

    async def _ask(self, state: EndpointState) -> bool | None:
        """None: it said nothing in time."""
        onprem = state.settings.zone.onprem
        patience_s = _ONPREM_PATIENCE_S if onprem else state.settings.connect_timeout_ms / 1000
        late_s = ambient.loop_s() + patience_s + _LAG_S
        try:
            async with asyncio.timeout(patience_s):
                return await state.connector.ready()
        except TimeoutError:
            return state.up if ambient.loop_s() > late_s else None
        except (GatewayError, OSError):
            return False
        except Exception:  # noqa: BLE001 - a background loop goes on; the bug is counted
            self._metrics.tasks_failed.labels("probe").inc()
            return False

    def _is_due(self, name: str) -> bool:
        """Whether a server that has not told all is to be asked again."""
        left = self._unlearnt.get(name)
        if left is None:
            return False
        self._unlearnt[name] = left - 1
        return left <= 0

    async def learn(self, name: str) -> None:
        """What it has, whether it is up already or about to be taken to be."""
        self._unlearnt[name] = _PROBES_BETWEEN
        try:
            if await self._learn_from(name, self._states[name]):
                del self._unlearnt[name]
        except GatewayError as exc:
            log.warning("%s: its models could not be listed: %s", name, exc.reason)
        except Exception:  # noqa: BLE001 - one server's nonsense must not end the watch
            self._metrics.tasks_failed.labels("learn").inc()
