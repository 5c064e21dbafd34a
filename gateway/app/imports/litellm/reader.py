"""LiteLLM's `config.yaml` as settings of Spillway (`spillway import litellm`).

Deployments with one `model_name` become one model with several places, deployments at one address
with one key become one endpoint. `os.environ/NAME` becomes `${NAME}`; a key that stands in the file
is not copied, but gets a variable to be put into. Source: LiteLLM's documentation of its proxy's
`config.yaml`, read in November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gateway.app.imports import Imported
from gateway.app.imports.litellm.leftovers import note_leftovers
from gateway.app.imports.litellm.prices import prices_per_1k
from gateway.app.imports.litellm.providers import (
    AZURE,
    DESCRIBED,
    IN_THE_CLOUD,
    OTHER_DIALECTS,
    SELF_HOSTED,
)
from gateway.app.imports.litellm.secrets import ENVIRON, SecretVariables, key_variable
from gateway.app.imports.litellm.values import items, mapping, stated, text
from gateway.config import external_addresses
from gateway.config.endpoint_kinds import OPENAI
from gateway.config.providers import find
from gateway.config.section import NAME_WORDS, is_name, is_upstream_name
from gateway.core.yaml_document import ConfigError

_TASKS = {"chat": "generate", "completion": "generate", "responses": "generate",
          "embedding": "embeddings"}  # fmt: skip

_ENDS_THERE = frozenset({"openai", *SELF_HOSTED}) - {"litellm_proxy"}
"""Whose `api_base` names the machine that computes, as far as anybody can tell."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One entry of `model_list` that can be reached in OpenAI's protocol."""

    group: str
    model: str  # its name there
    task: str
    endpoint: str
    prices: Mapping[str, float]  # as keys of `served_by`; empty: unknown

    @property
    def embeds(self) -> bool:
        return self.task == "embeddings"


def imported(document: Mapping[str, Any], onprem: Collection[str] = ()) -> Imported:
    """`onprem`: hosts that stand on the premises. Raises ConfigError for a document that is no
    configuration of LiteLLM."""
    reader = _LitellmReader(document, frozenset(onprem))
    reader.read()
    return reader.imported


class _LitellmReader:
    def __init__(self, document: Mapping[str, Any], onprem: frozenset[str]) -> None:
        if not isinstance(document.get("model_list"), list):
            raise ConfigError(
                "there is no model_list: this is no config.yaml of LiteLLM's proxy, or its models "
                "are in its database; export them into the file first"
            )
        self.imported = Imported()
        self._document = document
        self._onprem = onprem
        self._secrets = SecretVariables(document, self.imported)
        self._onprem_names: set[str] = set()
        self._endpoints: dict[tuple[str, str], str] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._deployments: dict[str, list[Deployment]] = {}

    def read(self) -> None:
        for at, entry in enumerate(self._document["model_list"]):
            deployment = self._deployment(f"model_list[{at}]", entry)
            if deployment is not None:
                self._deployments.setdefault(deployment.group, []).append(deployment)
        self._aliases()
        self._fallbacks()
        for host in sorted(self._onprem - self._onprem_names):
            raise ConfigError(
                f"--onprem {host}: no server of one's own is named there in the file; give the "
                "host of an api_base, without its port"
            )
        models = {group: self._model(group, places) for group, places in self._deployments.items()}
        if not models:
            raise ConfigError(
                "no model of this file can be reached in OpenAI's protocol:\n"
                + "\n".join(f"{n.where}: {n.text}" for n in self.imported.notes)
            )
        self.imported.document |= self._limits() | self._keys()
        used = {p["endpoint"] for model in models.values() for p in model["served_by"]}
        self.imported.document["endpoints"] = {
            name: its for name, its in self._settings.items() if name in used
        }
        self.imported.document["models"] = models
        note_leftovers(self._document, self.imported)

    # Deployments

    def _deployment(self, where: str, entry: Any) -> Deployment | None:
        params = mapping(entry, "litellm_params")
        group, full = text(entry, "model_name"), text(params, "model")
        if not group or not full:
            self.imported.left_out(where, "it has no model_name, or no litellm_params.model")
            return None
        if "*" in group or "*" in full:
            self.imported.left_out(
                where, f"{group}: name the models; a wildcard lets anything through"
            )
            return None
        if not self._is_name(where, group):
            return None
        info = mapping(entry, "model_info")
        task = self._task(where, group, info)
        endpoint = self._endpoint(f"{where}.litellm_params", group, params, full) if task else None
        if task is None or endpoint is None:
            return None
        first = _stated_provider(params) or _provider(full)
        own = full.removeprefix(f"{first}/") if first else full
        if not is_upstream_name(own):
            self.imported.left_out(where, f"{group}: {own!r} is no name for a model at an endpoint")
            return None
        return Deployment(group, own, task, endpoint, prices_per_1k({**info, **params}))

    def _is_name(self, where: str, name: str) -> bool:
        if not is_name(name):
            self.imported.left_out(where, f"{name!r} is no name for a model here: {NAME_WORDS}")
        return is_name(name)

    def _task(self, where: str, group: str, info: Mapping[str, Any]) -> str | None:
        mode = text(info, "mode")
        if not mode:
            task = "embeddings" if "embed" in group.lower() else "generate"
            if task == "embeddings":
                self.imported.check(where, f"{group}: taken for a model of embeddings, by its name")
            return task
        if mode not in _TASKS:
            self.imported.left_out(where, f"{group}: mode {mode} is not served here")
        return _TASKS.get(mode)

    def _endpoint(self, where: str, group: str, params: Mapping[str, Any], full: str) -> str | None:
        """The name of the endpoint at which it is served, which may be a new one."""
        provider = _stated_provider(params) or _provider(full) or "openai"
        url = self._url(where, group, provider, text(params, "api_base") or "")
        if url is None:
            return None
        try:
            host = external_addresses.url_host(url)
        except ValueError as exc:
            self.imported.left_out(where, f"{group}: api_base {exc}")
            return None
        key = self._secrets.reference(text(params, "api_key"), key_variable(provider), where)
        known = self._endpoints.get((url, key))
        if known is not None:
            return known
        name = self._new_name(provider if provider in IN_THE_CLOUD else host)
        onprem = self._is_onprem(where, name, provider, host)
        its: dict[str, Any] = {
            "kind": "openai",
            "zone": "onprem" if onprem else "cloud",
            "url": url,
        }
        described = find(DESCRIBED[provider]) if provider in DESCRIBED else None
        # an address of their own may be a proxy's, which speaks OpenAI's protocol as it is
        if described is not None and (
            provider in AZURE or described.kind != OPENAI.name or url == described.url
        ):
            its |= {"kind": described.kind, "provider": described.name}
        if onprem and external_addresses.could_be_outside(host):
            its["i_know"] = True
        if key:
            its["api_key"] = key
        if isinstance(most := params.get("max_parallel_requests"), int) and most > 0:
            its["max_in_flight"] = most
        for limit in ("rpm", "tpm"):
            if limit in params:
                self.imported.left_out(
                    f"{where}.{limit}", f"{name}: how much it takes at once is learnt from its 429s"
                )
        self._endpoints[url, key] = name
        self._settings[name] = its
        return name

    def _url(self, where: str, group: str, provider: str, base: str) -> str | None:
        if base.startswith(ENVIRON):
            self.imported.left_out(
                where, f"{group}: its api_base stands in {base.removeprefix(ENVIRON)}; a zone has "
                "to be given to an address, so write that into the file"
            )  # fmt: skip
            return None
        base = base.rstrip("/")
        if provider in AZURE:
            if not base:
                self.imported.left_out(where, f"{group}: it has no api_base")
                return None
            self.imported.check(where, f"{group}: reached at Azure's address in OpenAI's protocol")
            return base if base.endswith("/openai/v1") else f"{base}/openai/v1"
        if provider in SELF_HOSTED or (provider == "openai" and base):
            url = base or SELF_HOSTED[provider]
            if not url:
                self.imported.left_out(where, f"{group}: {provider} needs an api_base")
                return None
            versioned = re.search(r"/v[0-9]+(?:beta)?(?:/|$)", urlsplit(url).path)
            return url if versioned else f"{url}/v1"
        if provider in IN_THE_CLOUD:
            return base or IN_THE_CLOUD[provider]
        what = OTHER_DIALECTS.get(provider, "it is not known to speak OpenAI's protocol")
        self.imported.left_out(where, f"{group}: {provider}: {what}")
        return None

    def _is_onprem(self, where: str, name: str, provider: str, host: str) -> bool:
        """Whether it is on the premises: this very machine, or what the caller named. A private
        address may lead into a cloud by a tunnel, and a proxy anywhere."""
        if provider not in _ENDS_THERE:
            return False
        if host in self._onprem or external_addresses.is_loopback(host):
            self._onprem_names.add(host)
            return True
        if not external_addresses.could_be_outside(host):
            self.imported.check(
                where, f"{name}: in zone cloud, where no restricted call goes; if {host} stands in "
                f"your building, say --onprem {host}"
            )  # fmt: skip
        return False

    def _new_name(self, wish: str) -> str:
        wish = re.sub(r"[^A-Za-z0-9._-]", "-", wish).strip("-._") or "endpoint"
        names = (wish if at == 1 else f"{wish}-{at}" for at in range(1, 10_000))
        return next(name for name in names if name not in self._settings)

    # Models

    def _model(self, group: str, places: Sequence[Deployment]) -> dict[str, Any]:
        task = places[0].task
        fit = [p for p in places if p.task == task]
        if task == "embeddings":  # of different weights must not mix under one name
            fit = [p for p in fit if p.model == places[0].model]
        for place in places:
            if place not in fit:
                self.imported.left_out(
                    group, f"{place.model} at {place.endpoint}: its answers are of another kind"
                )
        served: dict[tuple[str, str], dict[str, Any]] = {}
        several = len({p.model for p in fit}) > 1
        same = next((p for p in fit if self._zone(p) == "onprem"), fit[0]).model
        for place in fit:
            if (place.endpoint, place.model) in served:
                self.imported.left_out(
                    group, f"{place.model} at {place.endpoint}: it is listed there already"
                )
                continue
            its: dict[str, Any] = {"endpoint": place.endpoint}
            if place.model != group:
                its["model"] = place.model
            if several or place.model != group:
                its["substitute"] = place.model != same
            if place.prices:
                its |= place.prices
            elif self._zone(place) == "cloud":
                self.imported.check(
                    group, f"the price at {place.endpoint} is not in the file: say "
                    "price_usd_per_1k_tokens, or it counts as costs.unknown_usd_per_1k_tokens says"
                )  # fmt: skip
            served[place.endpoint, place.model] = its
        return {"task": task, "served_by": list(served.values())}

    def _zone(self, place: Deployment) -> str:
        return str(self._settings[place.endpoint]["zone"])

    def _aliases(self) -> None:
        aliases = mapping(self._document.get("router_settings"), "model_group_alias")
        for alias, group in aliases.items():
            group = text(group, "model") if isinstance(group, Mapping) else group
            where = f"router_settings.model_group_alias.{alias}"
            if group not in self._deployments or alias in self._deployments:
                self.imported.left_out(where, f"there is no model {group!r}")
            elif self._is_name(where, alias):
                self._deployments[alias] = list(self._deployments[group])

    def _fallbacks(self) -> None:
        own = dict(self._deployments)
        for where, group, others in self._stated_fallbacks():
            for other in others:
                if group not in own or other not in own:
                    self.imported.left_out(where, f"{group} to {other}: one of them is not kept")
                elif own[group][0].embeds or own[other][0].embeds:
                    self.imported.left_out(where, f"{group} to {other}: embeddings must not mix")
                else:
                    self._deployments[group] = [*self._deployments[group], *own[other]]
                    self.imported.check(
                        where, f"{other} may answer for {group}, as another place of it; "
                        "restricted calls stay in zone onprem all the same"
                    )  # fmt: skip

    def _stated_fallbacks(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        for section in ("litellm_settings", "router_settings"):
            for one in items(self._document.get(section), "fallbacks"):
                for group, others in one.items() if isinstance(one, Mapping) else ():
                    listed = others if isinstance(others, list) else []
                    names = [name for name in listed if isinstance(name, str)]
                    yield f"{section}.fallbacks", str(group), names

    # The rest of the file

    def _limits(self) -> dict[str, Any]:
        timeouts = [
            limit
            for section, key in (("router_settings", "timeout"),
                                 ("litellm_settings", "request_timeout"))
            if isinstance(limit := stated(self._document.get(section), key), int | float)
            and not isinstance(limit, bool) and 0 < limit <= 3600
        ]  # fmt: skip
        return (
            {"limits": {"default_latency_budget_ms": int(timeouts[0] * 1000)}} if timeouts else {}
        )

    def _keys(self) -> dict[str, Any]:
        master = text(self._document.get("general_settings"), "master_key")
        key = self._secrets.reference(master, "LITELLM_MASTER_KEY", "general_settings.master_key")
        if not key:
            return {}
        self.imported.check(
            "general_settings.master_key", "kept as the key of the tenant `default`; give every "
            "team a key and a tenant of its own"
        )  # fmt: skip
        return {"keys": {"master": {"key": key, "tenant": "default"}}}


def _provider(full: str) -> str:
    """`openai` of `openai/gpt-4o`; empty for a name without one."""
    first, slash, _ = full.partition("/")
    known = {*IN_THE_CLOUD, *SELF_HOSTED, *AZURE, *OTHER_DIALECTS}
    its = first in known or not {".", ":"}.intersection(first)  # as of a host, or of `ft:...`
    return first if slash and its else ""


def _stated_provider(params: Mapping[str, Any]) -> str:
    """It counts before what the name of the model begins with."""
    return text(params, "custom_llm_provider") or ""
