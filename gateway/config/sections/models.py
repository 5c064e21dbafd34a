"""The catalog: what a model's inputs are, and who may serve it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FilePath, field_validator, model_validator

from gateway.config import token_encoding
from gateway.config.endpoint_kinds import KINDS
from gateway.config.section import (
    Capability,
    Contradiction,
    Count,
    KnownWord,
    Name,
    NotNegative,
    Positive,
    Section,
    UpstreamName,
    known,
)
from gateway.config.sections.endpoints import EndpointSettings
from gateway.core.operations.registry import task_operations, tasks
from gateway.core.operations.tensors import INFER
from gateway.core.types import place_name

Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Version = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,17}$")]


_FIXED = ("model", "stream")


class FieldChanges(Section):
    """Of the calls of one model, before they are read: what is read is what is sent."""

    set: dict[str, Any] = Field({}, description="field → its value, whatever the call says")
    default: dict[str, Any] = Field({}, description="field → its value where the call has none")
    remove: tuple[str, ...] = Field((), description="fields that are left out")

    @model_validator(mode="after")
    def _once_each(self) -> FieldChanges:
        stated = [*self.set, *self.default, *self.remove]
        for name in stated:
            if name in _FIXED:
                raise Contradiction((), f"{name} says where the call goes and how; drop it")
            if stated.count(name) > 1:
                raise Contradiction((), f"{name} stands in two of set, default and remove")
        return self

    def applied(self, document: Mapping[str, Any]) -> dict[str, Any]:
        changed = {**self.default, **document, **self.set}
        for name in self.remove:
            changed.pop(name, None)
        return changed


class ServedBySettings(Section):
    """One endpoint that may serve a model."""

    endpoint: Name
    model: UpstreamName | None = Field(
        None, description="its name there; the same name when absent"
    )
    version: Annotated[str, Field(pattern=r"^[0-9]{0,18}$")] = ""
    substitute: bool | None = Field(
        None, description="true: another model than the on-prem one; false: the same weights"
    )
    lacks: tuple[Capability, ...] = Field(
        (), description="what calls may need and it has not, though its kind may have it"
    )
    max_tokens: Count = Field(
        32_000, description="of an answer whose call states no limit, where its API requires one"
    )
    price_usd: NotNegative | None = Field(None, description="of each call")
    price_usd_per_1k_tokens: NotNegative | None = Field(None, description="input and output")
    price_usd_per_1k_input_tokens: NotNegative | None = None
    price_usd_per_1k_output_tokens: NotNegative | None = None
    price_usd_per_1k_cached_tokens: NotNegative | None = Field(
        None, description="of input that the provider has seen before; as the input when absent"
    )
    price_usd_per_1k_cache_write_tokens: NotNegative | None = Field(
        None, description="of input that the provider puts into its cache; as the input when absent"
    )

    @property
    def priced(self) -> bool:
        return any(name.startswith("price_usd") for name in self.model_fields_set)

    @model_validator(mode="after")
    def _prices_both_ways(self) -> ServedBySettings:
        """A price that is left out must not pass for nothing."""
        if self.price_usd_per_1k_tokens is not None:
            return self
        given, written = self.price_usd_per_1k_input_tokens, self.price_usd_per_1k_output_tokens
        if (given is None) is not (written is None):  # guard: B2.price-pair
            missing = "input" if given is None else "output"
            raise Contradiction(
                (f"price_usd_per_1k_{missing}_tokens",),
                "is not stated and the other way is; say 0 where it costs nothing",
            )
        return self


class MirrorSettings(Section):
    """An on-prem model that gets copies of another one's calls, and whose answers are compared."""

    model: Name
    share: Share = Field(1.0, description="of the calls that are copied")
    at_once: Count = Field(4, description="copies under way; more are left out")


class ModelSettings(Section):
    """A model of the catalog: what its inputs are and who may serve it."""

    task: Annotated[str, KnownWord(tasks)] = "infer"
    aliases: tuple[Name, ...] = Field((), description="further names that callers have for it")
    served_by: tuple[ServedBySettings, ...] = Field(min_length=1)
    text_inputs: tuple[str, ...] = Field((), description="BYTES inputs that hold text")
    inputs: tuple[str, ...] = Field(
        (), description="every other input, where no server says what they are called"
    )
    tensors: Literal["clear", "restricted"] = Field(
        "restricted", description="the class of every input that is not declared text"
    )
    versions: Mapping[Version, NotNegative] = Field(
        {},
        description="versions of on-prem servers that its calls are split among, each with its "
        "weight",
    )
    split: dict[Name, Share] = Field(
        {}, description="other models → the share of its calls that these serve"
    )
    sticky: Literal["conversation", "tenant"] = Field(
        "conversation", description="what keeps its model while the shares stand"
    )
    requests: FieldChanges | None = Field(
        None, description="what is changed in the fields of its OpenAI calls before they are read"
    )
    mirror: MirrorSettings | None = Field(
        None, description="an on-prem model that is tried with copies of its OpenAI calls"
    )
    latency_budget_ms: Positive | None = None
    max_batch: Count = Field(1, description="calls that the server executes as one batch")
    rows_independent: bool | None = Field(
        None, description="whether rows of one batch leave each other's answers alone; else tried"
    )
    tenants_apart: bool = Field(
        False, description="true: no request to a server has calls of more than one tenant"
    )
    canary: bool = Field(True, description="false where even an empty inference has an effect")
    token_encoding: FilePath | None = Field(
        None,
        description="the vocabulary of token ids that callers send in the place of text: a "
        "tokenizer.json, or ranks of tiktoken; without it, only servers that take ids get them",
    )
    pseudonymise: bool = Field(
        False, description="its calls may leave with surrogates, where their key allows it too"
    )

    label: str | None = Field(
        None, description="the class that its calls are of at least; or restricted"
    )
    public: bool = Field(
        False, description="true: its calls are not read, and may leave; public_reason says why"
    )
    public_reason: Annotated[str, Field(pattern=r"^[ -~]{0,200}$")] = Field(
        "", description="why nothing in its calls has to stay; told by check and /status"
    )

    def placed(self, name: str) -> Iterator[tuple[str, ServedBySettings]]:
        """Each of served_by with the name of its place, for the model of that name. An endpoint
        that is listed with several models is a place for each: the first has the endpoint's own
        name, a further one `ENDPOINT#MODEL`."""
        endpoints: set[str] = set()
        for served in self.served_by:
            endpoint = served.endpoint
            yield (
                place_name(endpoint, served.model or name) if endpoint in endpoints else endpoint,
                served,
            )
            endpoints.add(endpoint)

    @model_validator(mode="after")
    def _keeps_a_share(self) -> ModelSettings:
        if sum(self.split.values()) > 1:
            raise Contradiction(("split",), "its shares are more than 1 together")
        if "sticky" in self.model_fields_set and not self.split:
            raise Contradiction(("sticky",), "there is no split; drop it")
        if self.requests is not None and self.task == INFER.task:
            raise Contradiction(("requests",), "calls of tensors have no fields to change; drop it")
        return self

    @model_validator(mode="after")
    def _splits_calls(self) -> ModelSettings:
        if self.versions and not any(self.versions.values()):
            raise Contradiction(("versions",), "no version has a weight above 0")
        return self

    @model_validator(mode="after")
    def _says_why_public(self) -> ModelSettings:
        if not self.public:
            if self.public_reason:
                raise Contradiction(("public_reason",), "the model is not public; drop it")
            return self
        if not self.public_reason.strip():  # guard: C16.public-reason
            raise Contradiction(
                ("public",), "unread calls may leave; say in public_reason why nobody minds"
            )
        if self.pseudonymise:
            raise Contradiction(
                ("pseudonymise",), "calls of a public model are not read; drop it or public"
            )
        # guard: C16.tensors-conflict
        if self.tensors == "restricted" and "tensors" in self.model_fields_set:
            raise Contradiction(("tensors",), "restricted contradicts public: true; drop one")
        return self

    @field_validator("token_encoding")
    @classmethod
    def _is_vocabulary(cls, path: Path | None) -> Path | None:
        if path is not None:
            token_encoding.load(path)
        return path

    @model_validator(mode="after")
    def _reads_tokens(self) -> ModelSettings:
        if self.token_encoding is not None and not any(
            spec.token_field for spec in task_operations(self.task)
        ):
            raise Contradiction(("token_encoding",), f"no call of task {self.task} has token ids")
        return self

    @model_validator(mode="after")
    def _pseudonymises_text(self) -> ModelSettings:
        if self.pseudonymise and self.task != "generate":
            raise Contradiction(
                ("pseudonymise",), f"task {self.task} has no text to put back; only generate has"
            )
        return self


def check_served_by(
    name: str, model: ModelSettings, endpoints: Mapping[str, EndpointSettings]
) -> None:
    pairs: set[tuple[str, str]] = set()
    zones = {endpoints[s.endpoint].zone for s in model.served_by if s.endpoint in endpoints}
    if model.versions and not any(zone.onprem for zone in zones):
        raise Contradiction(
            ("models", name, "versions"), "only on-prem servers have versions, and none serves it"
        )
    one_name = len({served.model or name for served in model.served_by}) == 1
    for i, served in enumerate(model.served_by):

        def wrong(key: str, message: str, i: int = i) -> Contradiction:
            return Contradiction(("models", name, "served_by", i, key), message)

        if served.endpoint not in endpoints:
            raise wrong("endpoint", f"no endpoint {served.endpoint!r}; {known(endpoints)}")
        onprem = endpoints[served.endpoint].zone.onprem
        if model.versions and onprem and served.version:
            raise wrong("version", f"contradicts models.{name}.versions; drop one")
        if model.versions and onprem and not KINDS[endpoints[served.endpoint].kind].tensors:
            raise wrong("endpoint", f"{served.endpoint!r} has no versions to split calls among")
        there = served.endpoint, served.model or name
        if there in pairs:
            raise wrong("endpoint", f"{served.endpoint!r} is listed twice with model {there[1]!r}")
        pairs.add(there)
        kind = KINDS[endpoints[served.endpoint].kind]
        if not kind.tensors and model.task == INFER.task:
            raise wrong(
                "endpoint",
                f"{served.endpoint!r} speaks {kind.protocol} and cannot serve tensors; "
                f"set models.{name}.task to embeddings or generate",
            )
        provider = endpoints[served.endpoint].provider
        documents = [spec for spec in task_operations(model.task) if spec.path]
        if documents and kind.documents and not any(map(kind.serves, documents)):
            raise wrong(
                "endpoint", f"an endpoint of kind {kind.name} cannot serve task {model.task}"
            )
        if documents and provider and not any(d.name in provider.operations for d in documents):
            raise wrong("endpoint", f"{provider.title} has no API for task {model.task}")
        if model.task == "embeddings" and served.substitute and len(model.served_by) > 1:
            raise wrong("substitute", "embeddings of different weights must not mix under one name")
        if not one_name and served.substitute is None and (served.model or name) != name:
            raise wrong(
                "substitute",
                f"{served.model!r} is another name than its peers'; "
                "say substitute: true (another model) or false (same weights)",
            )


def check_splits(models: Mapping[str, ModelSettings]) -> None:
    """Raises Contradiction. Whoever may use a model may use those that it is split among, so these
    read their calls as it does."""
    for name, model in models.items():
        for other in model.split:
            where = ("models", name, "split", other)
            if other not in models or other == name:
                raise Contradiction(where, f"no other model {other!r}; {known(models)}")
            if models[other].split:
                raise Contradiction(where, f"{other} is split itself; name its models here")
            for key in _ALIKE:  # guard: K6.split-reading -> for key in ():
                if getattr(models[other], key) != getattr(model, key):
                    raise Contradiction(where, f"{other} has another {key} than {name}")


def check_mirrors(
    models: Mapping[str, ModelSettings], endpoints: Mapping[str, EndpointSettings]
) -> None:
    """Raises Contradiction."""
    for name, model in models.items():
        mirror = model.mirror
        if mirror is None:
            continue
        where, other = ("models", name, "mirror", "model"), models.get(mirror.model)
        if other is None or mirror.model == name or other.task != model.task:
            raise Contradiction(where, f"no other model of task {model.task} is called so")
        if other.mirror is not None or other.split:
            raise Contradiction(where, f"{mirror.model} has a mirror or a split itself; drop one")
        zones = {endpoints[s.endpoint].zone for s in other.served_by if s.endpoint in endpoints}
        if {zone.onprem for zone in zones} != {True}:  # guard: K6.mirror-onprem
            raise Contradiction(where, f"{mirror.model} is not served on-prem alone")


_ALIKE = ("task", "public", "pseudonymise", "tensors")
"""What all models that calls are split among have in common."""
