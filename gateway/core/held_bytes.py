"""The bytes that one process holds of what its callers and its endpoints send. Two budgets:

* of requests before a call has been made of them: bodies and messages that have not come whole, and
  what they are being inflated to. A `BodyShare` is what one of them has.
* of endpoints' answers until their callers have taken them: gathered until they are whole, read and
  restored, and kept for callers that take them slowly. An `AnswerShare` is what one call has.

Each is one budget for all connections, so that many calls together cost no more than one may.
"""

from __future__ import annotations

from collections.abc import Sequence

NOBODY = ""
"""Whose request it is while no credential says so: all strangers together are one caller."""

UNCOUNTED_BYTES = 64 * 1024
"""Of an answer: what is smaller fits into the buffers that every connection has."""


class HeldBytes:
    """Who takes gives back. `refused` counts what there was no room for.

    No caller may hold more than is left free. Alone it has half of the budget at most, beside one
    that holds half it has a quarter, and whoever comes finds room.
    """

    __slots__ = ("_by_caller", "bytes", "most_bytes", "refused")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self.refused = 0
        self._by_caller: dict[str, int] = {}  # by caller

    def held_by(self, caller: str) -> int:
        """The bytes that a caller holds."""
        return self._by_caller.get(caller, 0)

    def take(self, caller: str, count: int) -> bool:
        """Whether there was room for so many more."""
        its, held = self._by_caller.get(caller, 0) + count, self.bytes + count
        if its > self.most_bytes - held:  # guard: A9.caller-share -> if held > self.most_bytes:
            self.refused += 1
            return False
        self._by_caller[caller], self.bytes = its, held
        return True

    def give_back(self, caller: str, count: int) -> None:
        self.bytes -= count
        left = self._by_caller.get(caller, 0) - count
        if left > 0:
            self._by_caller[caller] = left
        else:
            self._by_caller.pop(caller, None)


class BodyShare:
    """What one body has of a budget; closed on every exit, after which it may take anew."""

    __slots__ = ("_budget", "_caller", "bytes")

    def __init__(self, budget: HeldBytes, caller: str) -> None:
        self._budget = budget
        self._caller = caller
        self.bytes = 0

    def take(self, count: int) -> bool:
        """Whether there was room for so many more."""
        if not self._budget.take(self._caller, count):
            return False
        self.bytes += count
        return True

    def close(self) -> None:
        """Harmless when it has been."""
        count, self.bytes = self.bytes, 0
        self._budget.give_back(self._caller, count)


class AnswerShare:
    """What one call holds of it, in parts: each has whoever gathers it for its key. Closed by the
    front, once the caller has the answer."""

    __slots__ = ("_budget", "_caller", "_closed", "_parts")

    def __init__(self, budget: HeldBytes, caller: str) -> None:
        self._budget = budget
        self._caller = caller
        self._closed = False
        self._parts: dict[object, int] | None = None

    @property
    def bytes(self) -> int:
        return 0 if self._parts is None else sum(self._parts.values())

    def hold(self, part: object, count: int) -> bool:
        """Whether there is room for so many bytes of this part, in the place of what there were."""
        if self._closed:
            return False
        parts = self._parts
        if parts is None:
            parts = self._parts = {}
        more = count - parts.get(part, 0)
        if more > 0:
            if not self._budget.take(self._caller, more):
                return False
        elif more < 0:
            self._budget.give_back(self._caller, -more)
        if count:
            parts[part] = count
        else:
            parts.pop(part, None)
        return True

    def close(self) -> None:
        """Harmless when it has been."""
        self._closed = True
        parts, self._parts = self._parts, None
        if parts:
            self._budget.give_back(self._caller, sum(parts.values()))


class JointAnswerShare(AnswerShare):
    """Of an answer to several calls, which each of them holds a part of."""

    __slots__ = ("_shares",)

    def __init__(self, shares: Sequence[AnswerShare]) -> None:
        self._shares = shares

    @property
    def bytes(self) -> int:
        return sum(share.bytes for share in self._shares)

    def hold(self, part: object, count: int) -> bool:
        each = -(-count // max(1, len(self._shares)))
        # guard: A9.joint-answer -> return True
        return all([share.hold(part, each) for share in self._shares])

    def close(self) -> None:
        """Each closes its own."""
