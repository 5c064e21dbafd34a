"""Keys that `spillway keys` issued, as a running gateway knows them.

The file is looked at every second. What was seen counts for five seconds from the beginning of the
look: a key that is revoked is refused after that time at the latest, also where the file has
become unreadable or the machine is so busy that nobody looks, since then no issued key is accepted.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from gateway.auth.caller import Caller, caller_from_scope
from gateway.auth.key_form import key_digest, public_id, stated_id
from gateway.auth.key_store import KeyReader, KeyRecord, KeyStoreUnreadable
from gateway.auth.refusal import NotAccepted
from gateway.config import ScopeSettings, TenantSettings
from gateway.core.deadline import Clock
from gateway.core.types import ONPREM_ONLY, Tightening

log = logging.getLogger(__name__)

POLL_S = 1.0
TRUSTED_S = 5.0
_NOBODY = bytes(32)


@dataclass(frozen=True, slots=True)
class Clocks:
    monotonic_s: Clock
    wall_s: Clock


class IssuedKeys:
    def __init__(
        self,
        reader: KeyReader,
        tenants: Mapping[str, TenantSettings],
        clocks: Clocks,
        operators: Collection[str] = (),
    ) -> None:
        """`operators`: ids of keys that open the console, and so make no calls."""
        self._operators = frozenset(operators)
        self._reader = reader
        self._tenants = tenants
        self._clocks = clocks
        self._keys: dict[str, tuple[KeyRecord, Caller | None]] = {}
        self._polled_s = -math.inf
        self._unreadable = ""
        self.looked_for: Callable[[Tightening], bool] = lambda added: True
        """Whether this gateway's scans look for all of it; set once they have been built."""

    def tightenings(self) -> frozenset[Tightening]:
        return frozenset(c.tightening for _, c in self._keys.values() if c is not None)

    def find(self, token: str) -> Caller:
        """Raises NotAccepted."""
        record, caller = self._in_use(token)
        if self._operators and not self._operators.isdisjoint(self._ids(record)):
            raise NotAccepted("operator")  # guard: P2.operator-calls
        if caller is None:
            raise NotAccepted("claims")
        if not self.looked_for(caller.tightening):  # guard: M5.unscanned-types
            return replace(caller, zones=ONPREM_ONLY)
        return caller

    def ids(self, token: str) -> tuple[str, ...]:
        """Of the key, and of those that it was rotated from. Raises NotAccepted."""
        return self._ids(self._in_use(token)[0])

    def _ids(self, record: KeyRecord) -> tuple[str, ...]:
        ids = [record.id]
        while record.replaces is not None and record.replaces not in ids:
            ids.append(record.replaces)
            if record.replaces not in self._keys:
                break
            record, _ = self._keys[record.replaces]
        return tuple(ids)

    def _in_use(self, token: str) -> tuple[KeyRecord, Caller | None]:
        if self._clocks.monotonic_s() - self._polled_s > TRUSTED_S:  # guard: B6.store-age
            raise NotAccepted("unverifiable")
        record, caller = self._keys.get(stated_id(token), (None, None))
        known = _NOBODY if record is None else record.digest
        same = hmac.compare_digest(known, key_digest(token))
        if record is None:
            raise NotAccepted("malformed" if public_id(token) is None else "unknown")
        if not same:  # guard: B6.secret-match
            raise NotAccepted("wrong_secret")
        if (why := record.why_not(self._clocks.wall_s())) is not None:  # guard: B6.revoked-expired
            raise NotAccepted(why)
        return record, caller

    def poll(self) -> None:
        """Blocking: at the start, and in a thread from then on."""
        began_s = self._clocks.monotonic_s()
        try:
            records = self._reader.changed()
        except KeyStoreUnreadable as exc:
            if self._unreadable != str(exc):
                log.error("issued keys: %s", exc)
            self._unreadable = str(exc)
            return
        self._unreadable = ""
        if records is not None:
            self._keys = {record.id: (record, self._caller(record)) for record in records}
        self._polled_s = began_s  # guard: B6.age-start began_s -> self._clocks.monotonic_s()

    async def run(self) -> None:
        try:
            while True:
                try:
                    await asyncio.to_thread(self.poll)
                except Exception:
                    log.exception("issued keys: the look at them met a bug")
                await asyncio.sleep(POLL_S)
        finally:
            self._reader.close()

    def _caller(self, record: KeyRecord) -> Caller | None:
        known, caller = self._keys.get(record.id, (None, None))
        if known == record:
            return caller
        try:
            scope = ScopeSettings.model_validate_json(record.scope)
        except ValidationError:
            log.error("key %s has a scope that this version cannot read: it is refused", record.id)
            return None
        caller = caller_from_scope(
            record.id, record.tenant, scope, self._tenants.get(record.tenant)
        )
        if not self.looked_for(caller.tightening):
            log.warning(
                "key %s restricts more than this gateway was started for: "
                "its calls stay on the premises until a restart", record.id,
            )  # fmt: skip
        return caller
