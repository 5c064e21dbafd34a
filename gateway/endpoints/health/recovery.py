"""Calls that wait for an on-prem server which is about to be back.

They have no other place, as restricted ones mostly have none. A restart takes about a second, and a
canary to a server that is up again much less: waiting is better than a refusal, while it is likely
to end in time and few enough wait.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gateway.config import HealthSettings
from gateway.core.deadline import Deadline

_SURE = 1.5  # times what is expected: then a restart has mostly ended
_RETRY_S = 2.0  # for what nobody knows


@dataclass(slots=True)
class Recovery:
    settings: HealthSettings
    _waiting: dict[asyncio.Future[bool], str] = field(default_factory=dict)  # a model; in order

    def worthwhile(self, back_in_s: float | None, need_s: float, deadline: Deadline) -> bool:
        """Whether a call that then takes `need_s` should wait for a server that is expected to be
        back in `back_in_s` (None: nobody knows)."""
        if back_in_s is None or self.waiting >= self.settings.restart_waiting:
            return False
        if back_in_s > self.settings.restart_wait_s:
            return False
        return deadline.allows(_SURE * back_in_s + need_s)  # guard: D5.recovery-time -> return True

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def wait(self, model: str, most_s: float) -> bool:
        """Until it is back: True; for `most_s`, or until that is expected no more: False."""
        back: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[back] = model
        try:
            async with asyncio.timeout(max(0.0, most_s)):
                return await back
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(back, None)

    def notify(self, model: str, *, back: bool) -> None:
        """It is back, or nobody knows any more whether it will be."""
        for waiter, awaited in self._waiting.items():
            if awaited == model and not waiter.done():
                waiter.set_result(back)

    @staticmethod
    def sure_s(back_in_s: float | None) -> float | None:
        return None if back_in_s is None else max(1.0, _SURE * back_in_s)

    def retry_after_s(self, back_in_s: float | None) -> float:
        return self.sure_s(back_in_s) or _RETRY_S
