"""Records that no commit has yet."""

from __future__ import annotations

from collections import deque
from typing import Final

from gateway.accounting.records import Durable

MOST_IN_ONE: Final = 1024  # records in one write


class PendingRecords:
    """In the order in which they came. Whoever adds a record sees to it that a group is closed at
    `MOST_IN_ONE` of them."""

    def __init__(self) -> None:
        self.records: list[bytes] = []  # of the group that is still open
        self.tickets: list[Durable] = []  # of those of them that are waited for
        self.groups: deque[tuple[list[bytes], list[Durable]]] = deque()  # full ones
        self._grouped = 0  # records in those

    @property
    def count(self) -> int:
        return self._grouped + len(self.records)

    def close_group(self) -> None:
        """What is here by now goes together."""
        if self.records:
            self.groups.append((self.records, self.tickets))
            self._grouped += len(self.records)
            self.records, self.tickets = [], []

    def take(self) -> tuple[list[bytes], list[Durable]] | None:
        """The next group: the oldest full one, or what is here by now."""
        if self.groups:
            group = self.groups.popleft()
            self._grouped -= len(group[0])
        elif self.records:
            group, self.records, self.tickets = (self.records, self.tickets), [], []
        else:
            return None
        return group
