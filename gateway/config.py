"""Every setting, typed; unknown keys are refused with the file and line they stand on.

`check` and `serve` read through `load` alone, so what the one accepts the other accepts (O1).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FilePath,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from gateway import configfile, premises
from gateway.configfile import ConfigError as ConfigError
from gateway.configfile import ConfigFile, Where
from gateway.types import STRICTNESS, Spill, Zone

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AtLeastOne = Annotated[float, Field(ge=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
ProfileName = Literal["patterns", "balanced", "strict"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$")]


class Contradiction(ValueError):
    """Settings that do not go together; `where` leads from the section to the one to mend."""

    def __init__(self, where: Where, message: str) -> None:
        super().__init__(message)
        self.where, self.message = where, message


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


class NamesSettings(Section):
    """Where names and addresses are looked for, and on which calls."""

    engine: Annotated[
        Literal["builtin", "presidio", "triton", "off"],
        BeforeValidator(lambda given: "off" if given is False else given),  # off, to YAML
    ] = "builtin"
    when: Literal["at_the_door", "always"] = Field(
        "at_the_door", description="only where a call would leave or waits, or on every call"
    )
    other_languages: Literal["restrict", "scan"] = Field(
        "restrict", description="text in a language that the engine was not measured on"
    )
    endpoint: Name | None = Field(None, description="triton: the on-prem endpoint that serves it")
    model: Name = Field("names", description="triton: its name there")
    nlp_configuration: FilePath | None = Field(
        None, description="presidio: the YAML file of an NLP engine"
    )
    recognizers: FilePath | None = Field(
        None, description="presidio: the YAML file of a recognizer registry"
    )
    modules: tuple[str, ...] = Field(
        (), description="presidio: Python modules with recognizers that the files name"
    )
    samples: tuple[str, ...] = Field(
        (), description="presidio: texts with a person's name, found before the engine is trusted"
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        """`names: always` says when; `names: off` is a boolean to YAML."""
        if given is False or given == "off":
            return {"engine": "off"}
        return {"when": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _fits_engine(self) -> NamesSettings:
        fields = type(self).model_fields  # not those that are set: a worker is sent all of them
        stated = [key for key in fields if getattr(self, key) != fields[key].default]
        for key in stated:
            if self.engine == "off" and key != "engine":
                raise Contradiction((key,), "the engine is off, so it counts for nothing; drop it")
            if (only := _ONE_ENGINE.get(key, self.engine)) != self.engine:
                raise Contradiction((key,), f"only engine {only} has one; drop it")
        if self.engine == "triton" and self.endpoint is None:
            raise Contradiction((), "engine triton needs endpoint: one of zone onprem")
        if self.engine == "presidio" and not (self.nlp_configuration or self.recognizers):
            raise Contradiction(
                (), "engine presidio needs nlp_configuration, recognizers or both: YAML files"
            )
        return self


_ONE_ENGINE = {
    "endpoint": "triton",
    "model": "triton",
    "nlp_configuration": "presidio",
    "recognizers": "presidio",
    "modules": "presidio",
    "samples": "presidio",
}


class MemorySettings(Section):
    """What is remembered of calls: keyed digests and verdicts, in this process alone."""

    verdicts: int = Field(
        65_536, ge=0, description="pieces of text that need not be read again; 0 remembers none"
    )
    verdict_s: Positive = 3600
    taints: Count = Field(
        131_072, description="restricted turns and sequences; all tenants share them fairly"
    )
    taint_s: Positive = Field(86_400, description="since the last restricted turn")


class ClassifySettings(Section):
    """How calls are read for personal data. There is no setting that lets an unread call out."""

    profile: ProfileName = "balanced"
    languages: tuple[str, ...] = ("en",)
    threshold: Score = 0.35
    restrict: tuple[str, ...] | None = Field(
        None, description="entity types that restrict; the profile's own list when absent"
    )
    allow_list: tuple[str, ...] = ()
    deny_list: tuple[str, ...] = ()
    registry: FilePath | None = Field(
        None, description="a recognizer registry in YAML, instead of Presidio's default one"
    )
    recognizers: FilePath | None = Field(
        None, description="pattern recognizers in YAML, beside those of the registry"
    )
    names: NamesSettings = NamesSettings()
    memory: MemorySettings = MemorySettings()
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
    margin: AtLeastOne = Field(1.2, description="safety on predictions")
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
    i_know: bool = Field(False, description="this public name or address stands on the premises")
    connect_timeout_ms: Positive = 2000
    expected_ms: Positive = Field(100, description="service time until one has been observed")
    max_in_flight: Count = 256
    probe_s: Positive = Field(1.0, description="between health probes")

    @model_validator(mode="after")
    def _reachable(self) -> EndpointSettings:
        self._check_embedded() if self.embedded else self._check_sides()
        for key, host in self._hosts():
            if self.zone is Zone.ONPREM and not self.i_know and premises.could_be_outside(host):
                raise Contradiction(
                    (key,),
                    f"{host} is a public name or address, and the zone is onprem; "
                    "if it really leads to your premises say i_know: true",
                )
        return self

    def _check_embedded(self) -> None:
        if self.kind != "triton" or self.zone is not Zone.ONPREM:
            raise Contradiction(
                ("embedded",), "only an endpoint of kind triton in zone onprem can be"
            )
        if self.url or self.grpc:
            raise Contradiction(
                ("url" if self.url else "grpc",), "an embedded server chooses its own; drop it"
            )

    def _check_sides(self) -> None:
        if self.repository is not None:
            raise Contradiction(("repository",), "only an embedded server is given one")
        if self.kind == "triton" and not self.grpc:
            raise Contradiction((), "kind triton needs grpc: host:port of its gRPC side")
        if self.kind == "openai" and not self.url:
            raise Contradiction((), "kind openai needs url: its base URL")
        if self.kind == "openai" and self.grpc:
            raise Contradiction(("grpc",), "an endpoint of kind openai has no gRPC side; drop it")
        if self.kind == "kserve" and bool(self.url) == bool(self.grpc):
            raise Contradiction((), "kind kserve needs exactly one of url and grpc")
        if self.grpc_tls and not self.grpc:
            raise Contradiction(("grpc_tls",), "there is no grpc that could use it")

    def _hosts(self) -> Iterator[tuple[str, str]]:
        """Each address's key and host."""
        readers: dict[str, tuple[str | None, Callable[[str], str]]] = {
            "url": (self.url, premises.host_of_url),
            "grpc": (self.grpc, premises.host_of_target),
        }
        for key, (address, read) in readers.items():
            if address:
                try:
                    yield key, read(address)
                except ValueError as exc:
                    raise Contradiction((key,), str(exc)) from None


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
    pseudonymise: bool = Field(
        False, description="its calls may leave with surrogates, where their key allows it too"
    )

    @model_validator(mode="after")
    def _pseudonymises_text(self) -> ModelSettings:
        if self.pseudonymise and self.task != "generate":
            raise Contradiction(
                ("pseudonymise",), f"task {self.task} has no text to put back; only generate has"
            )
        return self


class KeySettings(Section):
    """One caller. Its credential is given by reference, never in the file."""

    key: SecretStr
    tenant: Name
    models: tuple[str, ...] | None = None
    placement: Literal["onprem", "any"] = "any"
    spill: Spill = Spill.ALLOW
    latency_budget_ms: Positive | None = None
    pseudonymise: bool = Field(
        False, description="its calls may leave with surrogates, where their model allows it too"
    )
    profile: ProfileName | None = Field(None, description="restricts its types too")
    restrict: tuple[str, ...] = Field((), description="more entity types that restrict")
    threshold: Score | None = Field(None, description="lower than classify.threshold")


class TenantSettings(Section):
    """What is tightened for all keys of one tenant. Nothing in it can loosen."""

    placement: Literal["onprem", "any"] = "any"
    profile: ProfileName | None = Field(None, description="restricts its types too")
    restrict: tuple[str, ...] = Field((), description="more entity types that restrict")
    threshold: Score | None = Field(None, description="lower than classify.threshold")


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
    tenants: dict[Name, TenantSettings] = {}
    records: RecordSettings = RecordSettings()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        for name, model in self.models.items():
            _check_served_by(name, model, self.endpoints)
        self._check_keys()
        self._check_tightening()
        self._check_budgets()
        self._check_names()
        listen = self.listen
        if listen.http_port and listen.http_port == listen.grpc_port:
            raise Contradiction(("listen", "grpc_port"), "is the http_port too; give it its own")
        if not self.keys and not listen.exposed and not premises.is_loopback(listen.host):
            raise Contradiction(
                ("listen", "host"),
                f"{listen.host} is not loopback and no keys are configured; "
                "add keys, or say listen.exposed: true",
            )
        return self

    def _check_keys(self) -> None:
        known: dict[str, str] = {}
        for name, key in self.keys.items():
            secret = key.key.get_secret_value()
            if secret in known:
                raise Contradiction(
                    ("keys", name, "key"), f"is the key of keys.{known[secret]} too"
                )
            known[secret] = name
            for i, model in enumerate(key.models or ()):
                if self.undeclared_models == "refuse" and model not in self.models:
                    raise Contradiction(
                        ("keys", name, "models", i), f"no model {model!r}; {_known(self.models)}"
                    )

    def _check_tightening(self) -> None:
        """A key or a tenant that asks for less than the gateway would not get it: say so."""
        for name in self.tenants:
            if name not in {key.tenant for key in self.keys.values()}:
                raise Contradiction(("tenants", name), "no key under keys is of this tenant")
        own = self.classify
        stated: dict[tuple[str, str], KeySettings | TenantSettings] = {
            **{("tenants", name): tenant for name, tenant in self.tenants.items()},
            **{("keys", name): key for name, key in self.keys.items()},
        }
        for where, its in stated.items():
            if its.threshold is not None and its.threshold > own.threshold:
                raise Contradiction(
                    (*where, "threshold"),
                    f"is over classify.threshold ({own.threshold:g}); it can only tighten",
                )
            less = STRICTNESS[its.profile] < STRICTNESS[own.profile]
            if its.profile is not None and less and own.restrict is None:
                raise Contradiction(
                    (*where, "profile"),
                    f"restricts less than classify.profile, which is {own.profile};"
                    " it can only tighten",
                )

    def _check_budgets(self) -> None:
        most_ms = self.limits.max_latency_budget_ms
        stated: dict[tuple[str, ...], float | None] = {
            ("limits", "default_latency_budget_ms"): self.limits.default_latency_budget_ms,
            **{("models", n, "latency_budget_ms"): m.latency_budget_ms
               for n, m in self.models.items()},
            **{("keys", n, "latency_budget_ms"): k.latency_budget_ms
               for n, k in self.keys.items()},
        }  # fmt: skip
        for where, ms in stated.items():
            if ms is not None and ms > most_ms:
                raise Contradiction(where, f"is over limits.max_latency_budget_ms ({most_ms:g})")

    def _check_names(self) -> None:
        """The texts of all calls go there, before any of them is known to be clear."""
        name = self.classify.names.endpoint
        if name is None:
            return
        where = ("classify", "names", "endpoint")
        if name not in self.endpoints:
            raise Contradiction(where, f"no endpoint {name!r}; {_known(self.endpoints)}")
        endpoint = self.endpoints[name]
        if endpoint.zone is not Zone.ONPREM:
            raise Contradiction(where, f"{name!r} is not in zone onprem; take one that is")
        if endpoint.kind == "openai":
            raise Contradiction(where, f"{name!r} speaks OpenAI and cannot serve tensors")

    def policy_hash(self) -> str:
        """Twelve hex digits that name these settings in records and in /status; no secrets."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)  # secrets dump as stars
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _known(names: dict[str, Any]) -> str:
    return f"there are: {', '.join(sorted(names)) or 'none'}"


def _check_served_by(
    name: str, model: ModelSettings, endpoints: dict[str, EndpointSettings]
) -> None:
    seen: set[str] = set()
    one_name = len({served.model or name for served in model.served_by}) == 1
    for i, served in enumerate(model.served_by):

        def wrong(key: str, message: str, i: int = i) -> Contradiction:
            return Contradiction(("models", name, "served_by", i, key), message)

        if served.endpoint not in endpoints:
            raise wrong("endpoint", f"no endpoint {served.endpoint!r}; {_known(endpoints)}")
        if served.endpoint in seen:
            raise wrong("endpoint", f"{served.endpoint!r} is listed twice")
        seen.add(served.endpoint)
        if endpoints[served.endpoint].kind == "openai" and model.task == "infer":
            raise wrong(
                "endpoint",
                f"{served.endpoint!r} speaks OpenAI and cannot serve tensors; "
                f"set models.{name}.task to embeddings or generate",
            )
        if model.task == "embeddings" and served.substitute and len(model.served_by) > 1:
            raise wrong("substitute", "embeddings of different weights must not mix under one name")
        if not one_name and served.substitute is None and (served.model or name) != name:
            raise wrong(
                "substitute",
                f"{served.model!r} is another name than its peers'; "
                "say substitute: true (another model) or false (same weights)",
            )


def schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
    }


def load(path: Path) -> Settings:
    """Settings of a YAML file. Raises ConfigError, each line `file:line: key: what to do`."""
    return _validated(configfile.read(path))


def parse(text: str, name: str = "<config>") -> Settings:
    return _validated(configfile.parse(text, name))


def _validated(file: ConfigFile) -> Settings:
    try:
        return Settings.model_validate(file.document)
    except ValidationError as exc:
        problems = exc.errors(include_input=False, include_url=False)
        lines = [_explained(problem, file) for problem in problems]
    raise ConfigError("\n".join(lines))  # out here: the exception may quote secrets


def _explained(problem: ErrorDetails, file: ConfigFile) -> str:
    where, message = tuple(problem["loc"]), problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "unknown key" + _suggestion(where)
    elif problem["type"] == "missing":
        message = "is missing" + _choices(where)
    contradiction = problem.get("ctx", {}).get("error")
    if isinstance(contradiction, Contradiction):
        where, message = (*where, *contradiction.where), contradiction.message
    return file.at(where, message)


def _choices(where: Where) -> str:
    key = where[-1] if where else None
    if key == "zone":
        return f"; every endpoint says {' or '.join(sorted(z.value for z in Zone))}"
    return ""


def _suggestion(where: Where) -> str:
    import difflib  # only on the way to an error message

    names = {f for section in Section.__subclasses__() for f in section.model_fields}
    close = difflib.get_close_matches(str(where[-1]), names, n=1) if where else []
    return f"; did you mean {close[0]}?" if close else ""
