"""Providers as data: what is particular to a service, in OpenAI's protocol or in one of its own.

Each YAML file of this folder describes one, under the name that `endpoints.NAME.provider` has for
it. A description of the operator's own is named by its path. A new provider is a new file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from gateway.config.endpoint_kinds import KINDS, OPENAI
from gateway.config.providers.limits import LimitHeaders
from gateway.config.providers.prices import PriceTable
from gateway.config.section import Capability, Contradiction, KnownWord, Section, known
from gateway.config.validation import validated
from gateway.core import yaml_document
from gateway.core.operations.capabilities import INCIDENTAL
from gateway.core.operations.registry import by_path
from gateway.core.yaml_document import ConfigError

_FOLDER = Path(__file__).parent
_SUFFIX = ".yaml"
_HEADER = "^[A-Za-z0-9-]{1,64}$"
_BASE = "^(/[A-Za-z0-9._~-]+)*$"
_PATH = r"^(/([A-Za-z0-9._~:-]|\{model\})+)+$"
_STREAM_PATH = rf"{_PATH[:-1]}(\?[a-z]+=[a-z]+)?$"

Operation = Annotated[str, KnownWord(lambda: [spec.name for spec in by_path().values()])]
HeaderText = Annotated[str, Field(pattern="^[ -~]*$", max_length=1000)]


class Authorization(Section):
    """The header that carries the endpoint's `api_key`."""

    header: Annotated[str, Field(pattern=_HEADER)] = "authorization"
    scheme: Annotated[str, Field(pattern="^[A-Za-z]*$")] = Field(
        "Bearer", description="goes before the key; empty: the key alone"
    )

    def headers(self, key: str) -> dict[str, str]:
        return {self.header.lower(): f"{self.scheme} {key}" if self.scheme else key}


class ProviderDescription(Section):
    """One description. Paths go behind the base of the endpoint's URL; `{model}` in one stands for
    the model's name at the endpoint."""

    name: str = ""
    title: str = Field(min_length=1)
    source: str = Field("", description="where the provider documents its API")
    kind: Annotated[str, KnownWord(lambda: _kinds())] = Field(
        OPENAI.name, description="of its endpoints"
    )
    url: str | None = Field(None, description="of the endpoint, where all customers have the same")
    url_example: str = Field("", description="for messages, where each customer has another")
    base: Annotated[str, Field(pattern=_BASE)] = Field(
        "/v1", description="of the paths, where the endpoint's URL has no path"
    )
    authorization: Authorization = Authorization()
    headers: dict[Annotated[str, Field(pattern=_HEADER)], HeaderText] = Field({})
    query: dict[str, str] = Field({}, description="goes with every call; endpoints may change it")
    operations: dict[Operation, Annotated[str, Field(pattern=_PATH)]] = Field(min_length=1)
    streams: dict[Operation, Annotated[str, Field(pattern=_STREAM_PATH)]] = Field(
        {}, description="paths of streamed calls, where they have others"
    )
    stream_format: Literal["sse", "amazon"] = Field(
        "sse", description="of streamed answers: server-sent events, or AWS's event stream"
    )
    signing: Annotated[str, Field(pattern="^[a-z0-9-]*$")] = Field(
        "", description="the name of the service in AWS signatures, where it takes them"
    )
    probe: Annotated[str, Field(pattern=_PATH)] = Field("/models", description="for health probes")
    lacks: tuple[Capability, ...] = Field((), description="what no model has there")
    renames: dict[str, str] = Field({}, description="fields of calls that have another name there")
    omits: tuple[str, ...] = Field(
        (), description="fields that it refuses and that change nothing of what an answer says"
    )
    refuses: dict[str, tuple[Any, ...]] = Field(
        {}, description="fields that it takes with these values only, or with none"
    )
    limits: tuple[LimitHeaders, ...] | None = Field(
        None, description="headers that say what is left of its limits; absent: OpenAI's"
    )
    prices: PriceTable | None = Field(
        None, description="its price list, for models whose price the settings do not state"
    )
    body: dict[str, Any] = Field(
        {}, description="fields of what is sent, the same in every call; null: sent in none"
    )

    @model_validator(mode="after")
    def _omits_nothing_that_counts(self) -> ProviderDescription:
        for name in self.omits:
            if name not in INCIDENTAL:  # guard: S10.omitted-field
                raise Contradiction(
                    ("omits",), f"{name} changes what an answer says; list it in refuses"
                )
        return self

    def sent(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """The document of a call as this provider takes it."""
        if not self.omits and not self.renames:
            return document
        return {
            self.renames.get(key, key): value
            for key, value in document.items()
            if key not in self.omits
        }

    def completed(self, document: dict[str, Any]) -> dict[str, Any]:
        """What is sent, with the fields that are the same in every call."""
        if not self.body:
            return document
        made = {**document, **self.body}
        # guard: S16.fieldless-body self.body.get(key, key) is not None -> True
        return {key: value for key, value in made.items() if self.body.get(key, key) is not None}

    def path(self, operation: str, streamed: bool) -> str:
        """Empty: it has no such operation."""
        path = self.operations.get(operation, "")
        return self.streams.get(operation, path) if streamed else path


def _kinds() -> list[str]:
    """Those whose endpoints have a provider."""
    return [kind.name for kind in KINDS.values() if kind.provider is not None]


def names() -> list[str]:
    """Of those that ship."""
    return sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}"))


def find(name: str) -> ProviderDescription:
    """One that ships, by its name, or the operator's own, by its path. Raises ConfigError."""
    return _read(Path(name), name) if name.endswith(_SUFFIX) else _shipped(name)


@cache
def _shipped(name: str) -> ProviderDescription:
    if name not in names():
        raise ConfigError(
            f"no provider {name!r}; {known(names())}; one of your own is a path that ends in .yaml"
        )
    return _read(_FOLDER / f"{name}{_SUFFIX}", name)


def _read(path: Path, name: str) -> ProviderDescription:
    return validated(yaml_document.read(path), ProviderDescription).model_copy(
        update={"name": name}
    )


def _described(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return find(value)
    except ConfigError as exc:
        raise ValueError(str(exc)) from None


ProviderName = Annotated[
    ProviderDescription,
    BeforeValidator(_described),
    WithJsonSchema({"type": "string", "examples": names()}),
]
"""The description behind the name or path that settings have."""
