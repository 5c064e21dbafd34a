"""How calls are read for personal data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    DirectoryPath,
    Field,
    FilePath,
    SecretStr,
    model_validator,
)

from gateway.config import external_addresses
from gateway.config.section import Contradiction, Count, Name, Positive, ProfileName, Score, Section
from gateway.config.zones.sections import ClassSettings

_OFF = BeforeValidator(lambda given: "off" if given is False else given)  # off, to YAML


class NamesSettings(Section):
    """Where names and addresses are looked for, and on which calls."""

    engine: Annotated[Literal["builtin", "presidio", "triton", "off"], _OFF] = "builtin"
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
        131_072, description="restricted conversations kept in full; all tenants share them fairly"
    )
    taint_s: Positive = Field(86_400, description="since the last restricted turn")


CategoryName = Annotated[str, Field(pattern="^[a-z][a-z0-9_-]*$", max_length=40)]


class CategorySettings(Section):
    """What the operator counts as one kind of data: by examples, or by a table of exact values."""

    action: Literal["restrict", "label"] = Field(
        "restrict", description="keep such calls on the premises, or count them in their records"
    )
    examples: FilePath | None = Field(
        None, description="5 to 500 texts, one a line, or objects with `text` in a .jsonl file"
    )
    counterexamples: FilePath | None = Field(
        None, description="examples: harmless texts like them, in addition to the built-in ones"
    )
    threshold: Score | None = Field(
        None, description="examples: the score from which on a text is near; absent: found"
    )
    values: FilePath | None = Field(None, description="a table that `spillway values` made")
    key_file: FilePath | None = Field(None, description="values: the key that it was made with")

    @model_validator(mode="after")
    def _by_one(self) -> CategorySettings:
        if (self.examples is None) == (self.values is None):
            raise Contradiction((), "takes one of examples and values")
        if (self.values is None) != (self.key_file is None):
            raise Contradiction((), "values and key_file belong together")
        for key in ("counterexamples", "threshold"):
            if getattr(self, key) is not None and self.examples is None:
                raise Contradiction((key,), "only examples have one; drop it")
        return self


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
    categories: dict[CategoryName, CategorySettings] = Field(
        {}, max_length=16, description="of the operator's own, read in calls that would leave"
    )
    embeddings: DirectoryPath | None = Field(
        None, description="categories: a version of the embedding model, such as models/minilm/1"
    )
    documents: Annotated[Literal["off", "read"], _OFF] = Field(
        "off", description="read documents and pictures in calls; off: they restrict"
    )
    classes: dict[CategoryName, ClassSettings] = Field(
        {}, max_length=16, description="of data, between clear and restricted; clear itself"
    )
    memory: MemorySettings = MemorySettings()
    budget_ms: Positive = Field(
        2000, description="a scan that takes longer makes a call restricted"
    )
    max_scan_bytes: Count = Field(1_310_720, description="text beyond this makes a call restricted")
    workers: Count = 1
    max_waiting: Count = 256
    on_unknown: Literal["onprem", "block"] = "onprem"
    answers: Annotated[Literal["off", "report", "restrict"], _OFF] = Field(
        "off", description="what restricts in an answer is counted, or restricts its conversation"
    )

    @model_validator(mode="after")
    def _has_embeddings(self) -> ClassifySettings:
        by_examples = [n for n, its in self.categories.items() if its.examples is not None]
        if by_examples and self.embeddings is None:
            raise Contradiction(
                ("categories", by_examples[0], "examples"),
                "says nothing without classify.embeddings: a model's directory on this machine",
            )
        if self.embeddings is not None and not by_examples:
            raise Contradiction(("embeddings",), "no category has examples; drop it")
        return self


HookName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class HookSettings(Section):
    """One of them. It is sent what calls say, so it stands on the premises."""

    kind: Literal["guardrail", "opa"] = Field(
        description="guardrail: answers with an action; opa: a rule of an Open Policy Agent"
    )
    url: str = Field(description="of the whole path, such as http://opa:8181/v1/data/calls/allow")
    headers: dict[str, SecretStr] = Field({})
    ca_file: Path | None = Field(None, description="PEM; trusted in the place of the system's")
    timeout_ms: Positive = Field(500, description="for its answer, connecting included")
    on_failure: Literal["refuse", "restrict", "allow"] = Field(
        "refuse", description="of a call about which it does not answer in time, or not clearly"
    )
    models: tuple[str, ...] | None = Field(None, description="whose calls it judges")
    content: bool = Field(True, description="false: its requests are without the call's content")
    i_know: bool = Field(False, description="this public name or address stands on the premises")

    @model_validator(mode="after")
    def _stands_on_the_premises(self) -> HookSettings:
        try:
            host = external_addresses.url_host(self.url)
        except ValueError as exc:
            raise Contradiction(("url",), str(exc)) from None
        # guard: K5.hook-address
        if not self.i_know and external_addresses.could_be_outside(host):
            raise Contradiction(
                ("url",),
                f"{host} is a public name or address, and restricted calls are shown to it; "
                "if it really leads to your premises say i_know: true",
            )
        return self
