"""Who waits for an answer of one model on one endpoint, and since when nobody was answered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gateway.core.deadline import Clock


@dataclass(slots=True)
class AwaitedAnswers:
    clock: Clock
    waiting: dict[object, float] = field(default_factory=dict)  # for an answer, since when
    unanswered_since_s: float | None = None
    heard_count: int = 0
    heard_s: float = -math.inf  # when the last answer, or a part of one, came
    silent: bool = False  # the last canary was not answered, nor any call since

    def claim(self, who: object, now_s: float) -> None:
        """A call begins to wait for its answer, or for more of it, until it was `heard` or
        `gave_up`."""
        self.waiting[who] = now_s
        if self.unanswered_since_s is None:
            self.unanswered_since_s = now_s

    def heard(self, who: object = None) -> None:
        """Any answer is a sign of life, also one that says no. `who` had waited for it."""
        self.waiting.pop(who, None)
        self.heard_s = now_s = self.clock()
        self.heard_count += 1
        self.silent = False
        self.unanswered_since_s = now_s if self.waiting else None

    def gave_up(self, who: object) -> None:
        """Waits no more, and has heard nothing: the silence goes on."""
        self.waiting.pop(who, None)

    def silent_since(self, sent_s: float) -> bool:
        """Whether nobody was answered since a call that was sent then."""
        return self.heard_s <= sent_s

    def longest_wait_s(self) -> float:
        """Of those that wait now; negative where nobody does."""
        return self.clock() - next(iter(self.waiting.values()), math.inf)

    def forget_silence(self) -> None:
        """The server is another one."""
        self.silent = False
        self.unanswered_since_s = None
