"""What operators did, as records of the audit: written before an action is acknowledged, and read.

Who acts on the console is known by its credential. The kill switch is a file and keys are issued by
a command, so both can change without the gateway; it notices and records that within a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from gateway.accounting.audit import AuditError
from gateway.accounting.records import DecisionLog, RecordUnwritable
from gateway.accounting.spill import SpillStop
from gateway.auth.key_store import KeyChange, KeyReader, KeyStoreUnreadable
from gateway.core import ambient

log = logging.getLogger(__name__)

ACTIONS: Final = (
    "drain", "undrain", "spill_stop", "spill_go", "key_create", "key_rotate", "key_revoke",
)  # fmt: skip
POLL_S: Final = 1.0
_DURABLE_IN_S: Final = 10.0
_AGAIN_S: Final = 3600.0
"""Changes of keys are told anew at a start when they are no older than this before the last record
that is there: the gateway may have been killed before it told of them, and clocks differ."""


class Actions:
    """For the loop of the gateway."""

    def __init__(self, records: DecisionLog) -> None:
        self._records = records
        self.spill_stopped = False  # as the records have it
        self.switching = asyncio.Lock()  # held while the switch and its record do not agree

    async def record(
        self, action: str, by: str, on: str, via: str = "console", **more: Any
    ) -> None:
        """Returns once it is durable. Raises RecordUnwritable."""
        await self._durable(action, by, on, via, more)
        self.spill_stopped = {"spill_stop": True, "spill_go": False}.get(action, self.spill_stopped)

    async def _durable(
        self, action: str, by: str, on: str, via: str, more: Mapping[str, Any]
    ) -> None:
        durable = self._records.append(
            {
                "kind": "action",
                "time": round(ambient.wall_s(), 3),
                "action": action,
                "by": by,
                "on": on,
                "via": via,
                **more,
            }
        )
        if durable is None:
            return
        try:
            async with asyncio.timeout(_DURABLE_IN_S):
                failed = await durable  # guard: B7.durable-action await durable -> None
        except TimeoutError:
            failed = RecordUnwritable("the audit's disk does not answer", retry_after_s=1.0)
        if failed is not None:  # guard: B7.failed-action
            raise copy(failed)


class ActionWatch:
    """What was done without the console: the switch's file, and changes of keys."""

    def __init__(
        self,
        actions: Actions,
        stop: Callable[[], SpillStop],
        keys: KeyReader | None,
        since_s: float,
    ) -> None:
        """`stop`: the one that counts now. `since_s`: the last record that was there at the start
        (Unix time)."""
        self._actions = actions
        self._stop = stop
        self._keys = keys
        self._since_s = since_s - _AGAIN_S
        self._reported: set[KeyChange] = set()
        self._unreported: list[KeyChange] = []

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self.poll()
                except RecordUnwritable:
                    pass  # it is told of by whoever finds out first; the next look tries again
                except Exception:
                    log.exception("what operators did: the look at it met a bug")
                await asyncio.sleep(POLL_S)
        finally:
            if self._keys is not None:
                self._keys.close()

    async def poll(self) -> None:
        """Raises RecordUnwritable."""
        async with self._actions.switching:
            stop = self._stop()
            # guard: B7.switch-file (stopped := stop.on) is not self._actions.spill_stopped ->
            #   (stopped := stop.on) is None
            if (stopped := stop.on) is not self._actions.spill_stopped:
                action = "spill_stop" if stopped else "spill_go"
                await self._actions.record(action, "", str(stop.file), "file")
        changes = await asyncio.to_thread(self._changes)
        self._unreported += [change for change in changes if change not in self._reported]
        self._reported.update(changes)
        while self._unreported:
            # guard: B7.unrecorded-changes -> change = self._unreported.pop(0)
            change = self._unreported[0]
            await self._actions.record(
                change.action, change.by, change.key, "keys",
                at=round(change.at_s, 3), tenant=change.tenant,
            )  # fmt: skip
            del self._unreported[0]

    def _changes(self) -> list[KeyChange]:
        if self._keys is None:
            return []
        try:
            # guard: B7.offline-changes -> return self._keys.changes(ambient.wall_s())
            return self._keys.changes(self._since_s)
        except KeyStoreUnreadable:
            return []  # who looks for keys says so


# Reading


@dataclass(frozen=True, slots=True)
class Action:
    seq: int
    time_s: float  # when it was done
    action: str
    by: str  # the operator's name, or the user of the command; empty where nobody knows
    on: str
    via: str
    tenant: str = ""
    origin: str = ""


def actions(records: Iterable[dict[str, Any]]) -> Iterator[Action]:
    """In their order; what was told again after a restart once."""
    origin, listed = "", set[tuple[str, str, float]]()
    for record in records:
        if record.get("kind") == "segment":
            origin = str(record["origin"])
        if record.get("kind") != "action":
            continue
        action = _action(record, origin)
        identity = (action.action, action.on, action.time_s)
        if action.via == "keys" and identity in listed:
            continue
        listed.add(identity)
        yield action


def _action(record: dict[str, Any], origin: str) -> Action:
    try:
        return Action(
            seq=int(record["seq"]),
            time_s=float(record.get("at", record["time"])),
            action=str(record["action"]),
            by=str(record["by"]),
            on=str(record["on"]),
            via=str(record["via"]),
            tenant=str(record.get("tenant", "")),
            origin=origin,
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise AuditError(f"record {record.get('seq')} is no record of an action: {exc!r}") from exc
