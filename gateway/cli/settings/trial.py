"""What `spillway serve` would refuse, tried without a socket, a lock or a write.

The parts are built by the code that serves: the listener's TLS, each endpoint's door, who may call,
the scanner with its samples, the telemetry's packages. What serving would create is looked at from
outside, since a gateway may be running on the same files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from gateway.accounting.ledger.database import LedgerDown, LedgerError
from gateway.accounting.ledger.opening import reachable
from gateway.app.gateway import Gateway
from gateway.config import ConfigError, Settings
from gateway.core import ambient
from gateway.endpoints.triton.installation import Installation
from gateway.endpoints.triton.repository import loaded_versions
from gateway.endpoints.triton.supervisor import check_repository
from gateway.protocols.listeners import listener_files, refuse_key_logging
from gateway.protocols.tls import server_context

_PRICED: Final = {"input", "output", "cached", "cache_write"}


async def would_serve(settings: Settings, progress: Callable[[str], None]) -> None:
    """Raises ConfigError, TritonServerError or ScannerUnfit, as `serve` would."""
    refuse_key_logging()
    files = listener_files(settings)
    if files is not None:
        server_context(files)
    for name, endpoint in settings.endpoints.items():
        if endpoint.embedded:
            check_repository(name, endpoint.repository or Path("models"))
            Installation.find()
    _check_records(settings)
    _check_ledger(settings)
    progress("building the scanner")
    async with Gateway(settings).idle():
        pass


def absent_models(settings: Settings) -> Iterator[tuple[str, str]]:
    """(endpoint, model): models that the settings expect in an embedded server's repository."""
    for name, model in settings.models.items():
        for served in model.served_by:
            endpoint = settings.endpoints[served.endpoint]
            if not endpoint.embedded:
                continue
            wanted = served.model or name
            directory = (endpoint.repository or Path("models")).joinpath(wanted)
            if "/" in wanted or not directory.is_dir():
                yield served.endpoint, wanted


@dataclass(frozen=True, slots=True)
class AssumedPrice:
    """Of a model in the cloud whose price the settings do not state."""

    model: str
    endpoint: str
    usd_per_million: Mapping[str, float]  # by what it is of: input, output, cached, cache_write
    listed: str  # by whom; empty: by nobody, and the assumed price counts
    since: date | None = None
    checked_days_ago: int | None = None

    def sentence(self) -> str:
        prices = ", ".join(f"{kind} {usd:g}" for kind, usd in self.usd_per_million.items())
        words = f"{self.model} at {self.endpoint} states no price; assumed per million tokens: "
        if not self.listed:
            return f"{words}${prices} (costs.unknown_usd_per_1k_tokens)"
        return (
            f"{words}${prices} ({self.listed}, since {self.since}, "
            f"compared {self.checked_days_ago} days ago)"
        )

    def document(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "endpoint": self.endpoint,
            "usd_per_million_tokens": dict(self.usd_per_million),
            "source": self.listed,
            "since": None if self.since is None else self.since.isoformat(),
            "checked_days_ago": self.checked_days_ago,
        }


def assumed_prices(settings: Settings) -> Iterator[AssumedPrice]:
    for name, model in settings.models.items():
        for served in model.served_by:
            endpoint = settings.endpoints[served.endpoint]
            if endpoint.zone.onprem or served.priced:
                continue
            listed, provider = settings.listed_price(name, served), endpoint.provider
            if listed is None or provider is None or provider.prices is None:
                unknown_usd = 1000 * settings.costs.unknown_usd_per_1k_tokens
                yield AssumedPrice(name, served.endpoint, {"all": unknown_usd}, "")
                continue
            usd = listed.model_dump(include=_PRICED, exclude_none=True)
            table = provider.prices
            days = (datetime.fromtimestamp(ambient.wall_s(), UTC).date() - table.checked).days
            yield AssumedPrice(name, served.endpoint, usd, table.source, listed.since, days)


def unloaded_versions(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """(endpoint, model, version): versions that calls are split among, and that an embedded server
    does not load."""
    for name, model in settings.models.items():
        for served in model.served_by:
            endpoint = settings.endpoints[served.endpoint]
            there = served.model or name
            if endpoint.embedded and model.versions and "/" not in there:
                loaded = loaded_versions((endpoint.repository or Path("models")) / there)
                for version in model.versions.keys() - loaded:
                    yield served.endpoint, there, version


def unknown_key_models(settings: Settings) -> Iterator[tuple[str, str]]:
    """(key, model): models that a key is limited to and no model of the settings is called. Where
    undeclared models are refused, the settings are."""
    for name, key in settings.keys.items():
        for model in key.models or ():
            if model not in settings.models:
                yield name, model


def _check_records(settings: Settings) -> None:
    for key, path in (
        ("audit.directory", settings.audit.directory),
        ("ledger.path", settings.ledger_path.parent),
    ):
        there = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not there.is_dir():
            raise ConfigError(f"{key}: {there} is not a directory")
        if not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(
                f"{key}: {there} cannot be written to by this user; let it, or name another place"
            )


def _check_ledger(settings: Settings) -> None:
    dsn = settings.ledger.postgres
    try:
        reachable(settings.ledger_path, dsn.get_secret_value() if dsn else None)
    except (LedgerError, LedgerDown) as exc:
        raise ConfigError(f"ledger: {exc}") from None
