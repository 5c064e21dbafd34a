"""What `build` has added is served: running servers load it, and the settings name it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway import config
from gateway.cli.models import registry
from gateway.config import ConfigError, ListenSettings, yaml_editing
from gateway.config.endpoint_kinds import KINDS
from gateway.core import ambient
from gateway.core.types import Zone
from gateway.models.failures import WrongModel
from gateway.models.registry import installing, workshop
from gateway.models.registry.installing import ServersUpdated

_DEFAULT_FILE = Path("spillway.yaml")
_DEFAULT_PORT = ListenSettings.model_fields["http_port"].default
_FOLLOWED_S = 10.0  # in which a gateway that runs takes its changed settings
_PAUSE_S = 0.2
_DECISIVE = (200, 401, 403)


@dataclass(frozen=True, slots=True)
class SettingsTarget:
    """The settings that are to name a model; `path` is None where there is no file."""

    path: Path | None
    endpoint: str  # that serves the repository

    def block(self, entry: Mapping[str, Any], repository: Path) -> str:
        """What is to stand in the settings, such as a command prints it."""
        document: dict[str, Any] = {"models": dict(entry)}
        if self.path is None:
            server = {
                "kind": "triton", "zone": "onprem", "embedded": True,
                "repository": str(repository), "reload": True, "expected_ms": 20,
            }  # fmt: skip
            document = {"endpoints": {self.endpoint: server}, **document}
        return yaml_editing.written(document)

    def add(self, name: str, entry: Mapping[str, Any]) -> bool:
        """False: the file names the model already. Raises ConfigError and OSError; the file is as
        it was then."""
        assert self.path is not None
        if name in (_document(self.path).get("models") or {}):
            return False
        yaml_editing.rewrite(self.path, lambda text: self._changed(text, name, entry))
        return True

    def _changed(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """What the environment of this command lacks was wrong before, too."""
        changed = yaml_editing.with_entry(text, "models", name, entry)
        if new := _problems(changed) - _problems(text):
            raise ConfigError("\n".join(sorted(new)))
        return changed


def add_options(parser: argparse.ArgumentParser) -> None:
    registry.add_server(parser)
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="settings that are to name it (default: ./spillway.yaml if it is there)",
    )  # fmt: skip
    parser.add_argument(
        "--endpoint", metavar="NAME", help="of the settings, which serves the repository"
    )
    parser.add_argument(
        "--print-entry", action="store_true", help="print the entry of the settings, write it not"
    )


def settings_target(args: argparse.Namespace) -> SettingsTarget:
    """Raises ConfigError and WrongModel."""
    path = args.config or (_DEFAULT_FILE if _DEFAULT_FILE.exists() else None)
    if path is None:
        return SettingsTarget(None, args.endpoint or "local")
    endpoints = _document(path).get("endpoints")
    there = endpoints if isinstance(endpoints, dict) else {}
    if args.endpoint is not None:
        if args.endpoint not in there:
            raise WrongModel(f"--endpoint {args.endpoint}: {path} has {_named(there)}")
        return SettingsTarget(path, args.endpoint)
    may_serve = [name for name, given in there.items() if _is_over(given, args.repository)]
    may_serve = may_serve or [name for name, given in there.items() if _is_separate(given)]
    if not may_serve:
        return SettingsTarget(None, "local")
    if len(may_serve) > 1:
        raise WrongModel(
            f"{path}: say with --endpoint which one serves {args.repository}: {_named(may_serve)}"
        )
    return SettingsTarget(path, may_serve[0])


def load(args: argparse.Namespace, name: str, version: int) -> ServersUpdated:
    """Every server that runs over the repository serves the version. Raises RegistryError; the
    version is out of the repository then."""
    with workshop.opened(args.repository, name) as shop:
        servers = registry.find_servers(args)()
        return installing.serve(shop, version, shop.versions() == [version], servers)


def gateway_serving(path: Path, name: str, version: int) -> tuple[str, bool] | None:
    """The URL of the gateway of these settings, and whether it serves the version: one with keys
    does not say so. None: no gateway answers, or it does not serve it in time."""
    listen = _document(path).get("listen") or {}  # as a whole the file may need another environment
    host, port = str(listen.get("host", "")), listen.get("http_port", _DEFAULT_PORT)
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
    url = f"{'https' if listen.get('tls') else 'http'}://{host}:{port}"
    end_s = ambient.monotonic_s() + _FOLLOWED_S
    # Whoever answers here is asked for nothing but whether it is ready.
    with httpx.Client(base_url=url, trust_env=False, timeout=2.0, verify=False) as client:
        while ambient.monotonic_s() < end_s:
            try:
                answer = client.get(f"/v2/models/{name}/versions/{version}/ready")
            except (httpx.TransportError, httpx.InvalidURL):
                return None
            if answer.status_code in _DECISIVE:
                return url, answer.status_code == 200
            time.sleep(_PAUSE_S)
    return None


def _document(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        config.load(path)  # says what is wrong, with its line
        raise
    return document if isinstance(document, dict) else {}


def _is_over(endpoint: Any, repository: Path) -> bool:
    if not isinstance(endpoint, dict) or not endpoint.get("embedded"):
        return False
    return Path(str(endpoint.get("repository", "models"))).resolve() == repository.resolve()


def _is_separate(endpoint: Any) -> bool:
    """Whether it is a server of tensors on the premises that is not the gateway's own."""
    if not isinstance(endpoint, dict) or endpoint.get("embedded"):
        return False
    kind = KINDS.get(str(endpoint.get("kind")))
    return kind is not None and kind.tensors and endpoint.get("zone") == Zone.ONPREM.name


def _named(endpoints: Iterable[str]) -> str:
    return ", ".join(endpoints) or "none"


def _problems(text: str) -> set[str]:
    """Without the lines that they stand on."""
    try:
        config.parse(text, "")
    except ConfigError as exc:
        return {line.split(": ", 1)[-1] for line in str(exc).splitlines()}
    return set()
