"""What `spillway serve` would refuse, tried without a socket, a lock or a write.

The parts are built by the code that serves: the listener's TLS, each endpoint's door, who may call,
the scanner with its samples, the telemetry's packages. What serving would create is looked at from
outside, since a gateway may be running on the same files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.accounting.ledger.database import LedgerDown, LedgerError
from gateway.accounting.ledger.opening import reachable
from gateway.app.gateway import Gateway
from gateway.config import ConfigError, Settings
from gateway.endpoints.triton.installation import Installation
from gateway.endpoints.triton.repository import loaded_versions
from gateway.endpoints.triton.supervisor import check_repository
from gateway.protocols.listeners import listener_files, refuse_key_logging
from gateway.protocols.tls import server_context


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
