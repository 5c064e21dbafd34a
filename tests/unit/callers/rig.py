"""A key store in a folder, and a gateway's view of it under clocks of the test's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.auth import Callers
from gateway.auth.issued import Clocks, IssuedKeys
from gateway.auth.key_form import key_digest, new_key
from gateway.auth.key_store import KeyReader, KeyRecord, KeyStore
from gateway.config import ScopeSettings, TenantSettings
from gateway.core import ambient


class Times:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.wall_s = 1_800_000_000.0

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_s += seconds


class Vault:
    """What the commands do, and what a gateway sees."""

    def __init__(self, folder: Path, tenants: Mapping[str, TenantSettings] | None = None) -> None:
        self.path = folder / "keys.db"
        self.store = KeyStore(self.path)
        self.times = Times()
        clocks = Clocks(lambda: self.times.now_s, lambda: self.times.wall_s)
        self.issued = IssuedKeys(KeyReader(self.path), tenants or {}, clocks)
        self.refusals: list[tuple[str, str]] = []
        self.callers = Callers(
            {}, issued=self.issued, on_refusal=lambda *told: self.refusals.append(told)
        )

    def create(self, tenant: str = "acme", expires: float | None = None, **scope: Any) -> str:
        key, key_id = new_key(ambient.random_bytes)
        said = ScopeSettings.model_validate(scope).model_dump_json(exclude_defaults=True)
        now_s = self.times.wall_s
        self.store.add(KeyRecord(key_id, key_digest(key), tenant, "", said, now_s, expires))
        return key

    def tenant_of(self, key: str) -> str:
        return self.callers.identify(f"Bearer {key}").tenant
