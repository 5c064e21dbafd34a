"""The versions of the settings that calls are under, side by side until their calls have ended."""

from __future__ import annotations

from collections.abc import Callable

from gateway.app.generation import Core
from gateway.core import ambient
from gateway.core.errors import Draining

_MOST_BEHIND = 8  # versions that calls are still under; over it the oldest are cut


class LiveGenerations:
    """In one event loop."""

    def __init__(self) -> None:
        self.live: list[Core] = []  # the newest last
        self.loaded_s = ambient.wall_s()  # when the newest came (Unix time)
        self.retired: Callable[[], object] = _nothing  # called when one of them is gone

    @property
    def newest(self) -> Core:
        """What new calls come to."""
        return self.live[-1]

    def open_calls(self) -> int:
        return sum(core.accounts.open_calls for core in self.live)

    def begin(self, core: Core) -> None:
        """New calls come to it from now on."""
        core.begin()
        self.live.append(core)
        self.loaded_s = ambient.wall_s()

    def cut_oldest(self) -> None:
        for oldest in self.live[: -1 - _MOST_BEHIND]:
            oldest.pipeline.cut(_outlived)

    async def retire(self, core: Core) -> None:
        """Close it once its calls have ended, which their deadlines see to."""
        await core.quiet()  # guard: O2.version-lifetime
        self.live.remove(core)
        await core.close(self.live)
        self.retired()

    async def close(self) -> None:
        """Close all of them. The newest stays: a server's supervisor asks it until that ends."""
        for at in reversed(range(len(self.live))):
            await self.live[at].close(self.live[:at])


def _outlived() -> Draining:
    return Draining(
        "the settings of this call have been replaced too often; call again", retry_after_s=1.0
    )


def _nothing() -> None:
    """Nobody asked to be told."""
