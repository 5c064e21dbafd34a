"""Every setting, typed; unknown keys are refused with the file and line they stand on.

`check` and `serve` read through `load` alone, so what the one accepts the other accepts (O1).
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from gateway.types import Spill, Zone

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$")]


class ConfigError(Exception):
    """One or more settings are wrong; each line says where and how to mend it."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ListenSettings(Section):
    """Where the gateway listens."""

    host: str = "127.0.0.1"
    http_port: int = Field(8080, ge=0, le=65535)
    grpc_port: int = Field(8081, ge=0, le=65535)
    exposed: bool = Field(
        False, description="allow a host other than loopback although no keys are configured"
    )


class LimitSettings(Section):
    """What one call and all calls together may cost the gateway."""

    max_body_bytes: Count = 64 * 1024 * 1024
    max_json_depth: Count = 64
    max_concurrent: Count = 1024
    max_concurrent_per_tenant: Count = 1024
    max_latency_budget_ms: Positive = 3_600_000
    default_latency_budget_ms: Positive = 60_000
    drain_s: NotNegative = 20.0


class ClassifySettings(Section):
    """How calls are read for personal data. There is no setting that lets an unread call out."""

    profile: Literal["balanced", "strict"] = "balanced"
    languages: tuple[str, ...] = ("en",)
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.35
    restrict: tuple[str, ...] | None = Field(
        None, description="entity types that restrict; the profile's own list when absent"
    )
    allow_list: tuple[str, ...] = ()
    deny_list: tuple[str, ...] = ()
    budget_ms: Positive = Field(
        2000, description="a scan that takes longer makes a call restricted"
    )
    max_scan_bytes: Count = Field(65_536, description="text beyond this makes a call restricted")
    workers: Count = 1
    max_waiting: Count = 256
    on_unknown: Literal["onprem", "block"] = "onprem"


class QueueSettings(Section):
    """The gateway's own queue in front of each on-prem model."""

    max_waiting: Count = 512
    max_waiting_batches: Positive = Field(3.0, description="clear calls spill beyond this")
    in_flight_batches: Positive = Field(2.0, description="the running batch and the next")
    aging_s: Positive = Field(10.0, description="waiting this long lifts a call by one priority")


class RoutingSettings(Section):
    """What the decision weighs."""

    spill: bool = Field(True, description="false is the kill switch: nothing goes to the cloud")
    margin: Annotated[float, Field(ge=1)] = Field(1.2, description="safety on predictions")
    miss_penalty_usd: NotNegative = Field(0.05, description="what a missed budget costs")
    max_attempts: Count = 2


class EndpointSettings(Section):
    """One place that can serve models. It must say which zone it stands in."""

    kind: Literal["triton", "kserve", "openai"]
    zone: Zone
    url: str | None = Field(None, description="base URL of its HTTP side, e.g. http://gpu-1:8000")
    grpc: str | None = Field(None, description="host:port of its gRPC side")
    grpc_tls: bool = False
    embedded: bool = Field(False, description="a Triton server that Spillway starts by itself")
    repository: Path | None = Field(None, description="model repository of the embedded server")
    api_key: SecretStr | None = None
    headers: dict[str, SecretStr] = {}
    ca_file: Path | None = None
    i_know: bool = Field(False, description="accept an address that does not look like its zone")
    connect_timeout_ms: Positive = 2000
    expected_ms: Positive = Field(100, description="service time until one has been observed")
    max_in_flight: Count = 256
    probe_s: Positive = Field(1.0, description="between health probes")

    @model_validator(mode="after")
    def _reachable(self) -> EndpointSettings:
        if self.embedded:
            if self.kind != "triton" or self.zone is not Zone.ONPREM:
                raise ValueError("embedded: only an endpoint of kind triton in zone onprem can be")
            if self.url or self.grpc:
                raise ValueError("embedded: the server's addresses are chosen; drop url and grpc")
            return self
        if self.kind == "triton" and not self.grpc:
            raise ValueError("grpc: an endpoint of kind triton needs host:port of its gRPC side")
        if self.kind == "openai" and not self.url:
            raise ValueError("url: an endpoint of kind openai needs its base URL")
        if self.kind == "kserve" and bool(self.url) == bool(self.grpc):
            raise ValueError("url, grpc: an endpoint of kind kserve needs exactly one of them")
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError("url: must start with http:// or https://")
        if self.zone is Zone.ONPREM and not self.i_know:
            for host in self.hosts():
                if looks_like_cloud(host):
                    raise ValueError(
                        f"zone: {host} looks like an address outside the premises; "
                        "if it really is on-prem say i_know: true"
                    )
        return self

    def hosts(self) -> tuple[str, ...]:
        found = []
        if self.url:
            found.append(urlsplit(self.url).hostname or "")
        if self.grpc:
            found.append(urlsplit(f"//{self.grpc}").hostname or "")
        return tuple(found)


class ServedBySettings(Section):
    """One endpoint that may serve a model."""

    endpoint: Name
    model: Name | None = Field(None, description="its name there; the same name when absent")
    version: Annotated[str, Field(pattern=r"^[0-9]{0,18}$")] = ""
    substitute: bool | None = Field(
        None, description="true: another model than the on-prem one; false: the same weights"
    )
    price_usd: NotNegative = 0.0
    price_usd_per_1k_tokens: NotNegative = 0.0


class ModelSettings(Section):
    """A model of the catalog: what its inputs are and who may serve it."""

    task: Literal["infer", "embeddings", "generate"] = "infer"
    served_by: tuple[ServedBySettings, ...] = Field(min_length=1)
    text_inputs: tuple[str, ...] = Field((), description="BYTES inputs that hold text")
    tensors: Literal["clear", "restricted"] = Field(
        "restricted", description="the class of every input that is not declared text"
    )
    latency_budget_ms: Positive | None = None
    max_batch: Count = Field(1, description="calls that the server executes as one batch")


class KeySettings(Section):
    """One caller. Its credential is given by reference, never in the file."""

    key: SecretStr
    tenant: Name
    models: tuple[str, ...] | None = None
    placement: Literal["onprem", "any"] = "any"
    spill: Spill = Spill.ALLOW
    latency_budget_ms: Positive | None = None


class RecordSettings(Section):
    """Where the decision records go."""

    path: Path = Path("var/decisions.jsonl")


class Settings(Section):
    listen: ListenSettings = ListenSettings()
    limits: LimitSettings = LimitSettings()
    classify: ClassifySettings = ClassifySettings()
    queue: QueueSettings = QueueSettings()
    routing: RoutingSettings = RoutingSettings()
    endpoints: dict[Name, EndpointSettings]
    models: dict[Name, ModelSettings]
    undeclared_models: Literal["onprem", "refuse"] = Field(
        "onprem",
        description="models of the on-prem servers that the file does not name: "
        "served there, always restricted; or refused",
    )
    keys: dict[Name, KeySettings] = {}
    records: RecordSettings = RecordSettings()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        for name, model in self.models.items():
            _check_served_by(name, model, self.endpoints)
        if not self.keys and not self.listen.exposed and not _is_loopback(self.listen.host):
            raise ValueError(
                f"listen.host: {self.listen.host} is not loopback and no keys are configured; "
                "add keys, or say listen.exposed: true"
            )
        return self

    def policy_hash(self) -> str:
        """Twelve hex digits that name these settings in records and in /status; no secrets."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)  # secrets dump as stars
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _check_served_by(
    name: str, model: ModelSettings, endpoints: dict[str, EndpointSettings]
) -> None:
    names: set[str] = set()
    seen: set[str] = set()
    for i, served in enumerate(model.served_by):
        at = f"models.{name}.served_by[{i}]"
        if served.endpoint not in endpoints:
            known = ", ".join(sorted(endpoints)) or "none"
            raise ValueError(f"{at}.endpoint: no endpoint {served.endpoint!r}; there are: {known}")
        if served.endpoint in seen:
            raise ValueError(f"{at}.endpoint: {served.endpoint!r} is listed twice")
        seen.add(served.endpoint)
        if endpoints[served.endpoint].kind == "openai" and model.task == "infer":
            raise ValueError(
                f"{at}.endpoint: {served.endpoint!r} speaks OpenAI and cannot serve tensors; "
                f"set models.{name}.task to embeddings or generate"
            )
        if model.task == "embeddings" and served.substitute and len(model.served_by) > 1:
            raise ValueError(
                f"{at}.substitute: embeddings of different weights must not mix under one name"
            )
        names.add(served.model or name)
    if len(names) > 1:
        for i, served in enumerate(model.served_by):
            if served.substitute is None and (served.model or name) != name:
                raise ValueError(
                    f"models.{name}.served_by[{i}].substitute: {served.model!r} is another name "
                    "than its peers'; say substitute: true (another model) or false (same weights)"
                )


_CLOUD_SUFFIXES = (
    "amazonaws.com", "azure.com", "azure.net", "windows.net", "googleapis.com", "openai.com",
    "anthropic.com", "mistral.ai", "nvidia.com", "run.app", "cloudapp.net", "huggingface.cloud",
    "together.xyz", "groq.com", "cohere.ai", "cohere.com", "fireworks.ai", "ngrok.io",
    "ngrok-free.app", "openrouter.ai", "deepinfra.com", "replicate.com",
)  # fmt: skip


def looks_like_cloud(host: str) -> bool:
    """Whether a host name or address looks as if it stood outside the premises (M6)."""
    host = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return any(host == s or host.endswith("." + s) for s in _CLOUD_SUFFIXES)
    return address.is_global


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
    }


def load(path: Path) -> Settings:
    """Settings of a YAML file. Raises ConfigError, each line `file:line: key: what to do`."""
    try:
        text = path.read_text("utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {exc.start})") from exc
    return parse(text, str(path))


def parse(text: str, name: str = "<config>") -> Settings:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{name}:{line}: not valid YAML: {exc.problem}") from exc
    problems: list[str] = []
    if root is None:
        raise ConfigError(f"{name}:1: the file is empty; it needs at least endpoints and models")
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{name}:1: the file must be a mapping of settings")
    _refuse_duplicates(root, name, problems)
    if problems:
        raise ConfigError("\n".join(problems))
    document = yaml.safe_load(text)
    resolved = _resolve(document, root, name, problems)
    if problems:
        raise ConfigError("\n".join(problems))
    try:
        return Settings.model_validate(resolved)
    except ValidationError as exc:
        raise ConfigError("\n".join(_explain(exc, root, name))) from None  # may quote secrets


def _refuse_duplicates(node: yaml.Node, name: str, problems: list[str]) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                problems.append(f"{name}:{key.start_mark.line + 1}: {key.value}: stands here twice")
            seen.add(key.value)
            _refuse_duplicates(value, name, problems)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(item, name, problems)


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*|file:[^}]+)\}")
_SECRETS = ("key", "api_key")


def _resolve(value: Any, node: yaml.Node, name: str, problems: list[str], key: str = "") -> Any:
    """Replace `${NAME}` and `${file:PATH}`; a secret written out in the file is refused."""
    if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
        nodes = {k.value: v for k, v in node.value}
        return {
            k: _resolve(v, nodes.get(str(k), node), name, problems, key=str(k))
            for k, v in value.items()
        }
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
        return [
            _resolve(v, n, name, problems, key=key) for v, n in zip(value, node.value, strict=True)
        ]
    if not isinstance(value, str):
        return value
    line = node.start_mark.line + 1
    if key in _SECRETS and not _REFERENCE.fullmatch(value):
        problems.append(
            f"{name}:{line}: {key}: secrets stand in the environment or in a file; "
            "write ${NAME} or ${file:PATH}"
        )
        return value

    def replaced(match: re.Match[str]) -> str:
        what = match[1]
        if what.startswith("file:"):
            try:
                return Path(what[5:]).read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError):
                problems.append(f"{name}:{line}: {key}: the file {what[5:]} cannot be read")
                return ""
        if what not in os.environ:
            problems.append(f"{name}:{line}: {key}: the environment has no variable {what}")
        return os.environ.get(what, "")

    return _REFERENCE.sub(replaced, value)


def _explain(error: ValidationError, root: yaml.Node, name: str) -> list[str]:
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        message = problem["msg"].removeprefix("Value error, ")
        where = tuple(problem["loc"])
        if not where and (found := re.match(r"([A-Za-z0-9_.\[\]/-]+): ", message)):
            where = tuple(_path(found[1]))
            message = message[found.end() :]
        if problem["type"] == "extra_forbidden":
            message = "unknown key" + _suggestion(where)
        key = ".".join(str(part) for part in where) or "the file"
        lines.append(f"{name}:{_line(root, where)}: {key}: {message}")
    return lines


def _path(text: str) -> list[str | int]:
    parts: list[str | int] = []
    for part in text.split("."):
        head, *indexes = re.split(r"\[(\d+)\]", part)
        parts.append(head)
        parts.extend(int(i) for i in indexes if i)
    return parts


def _line(root: yaml.Node, where: tuple[int | str, ...]) -> int:
    """The line of the deepest node on the way to `where`."""
    node, line = root, root.start_mark.line + 1
    for part in where:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    node, line = value, key.start_mark.line + 1
                    break
            else:
                return line
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                return line
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _suggestion(where: tuple[int | str, ...]) -> str:
    import difflib  # only on the way to an error message

    names = {f for section in Section.__subclasses__() for f in section.model_fields}
    close = difflib.get_close_matches(str(where[-1]), names, n=1) if where else []
    return f"; did you mean {close[0]}?" if close else ""
