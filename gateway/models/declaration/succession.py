"""The model.yaml that a further version of a model brings: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from gateway.config import yaml_editing
from gateway.models.declaration import Declaration

_SITE_KEYS = ("targets", "parameters", "loaded_versions")
_TUNED = ("preferred", "delay_us")


def next_text(text: str, sha256: str) -> str:
    """Of a version with another graph, from that of the version before: its source is the new file,
    and nobody's word on its rows is carried over. Raises ConfigError."""
    document = _document(text)
    text = yaml_editing.with_key(text, "source", {**document["source"], "sha256": sha256})
    batching = dict(document.get("batching") or {})
    if batching.pop("rows_independent", None) is not None:
        text = yaml_editing.with_key(text, "batching", batching)
    return text


def with_canary_outputs(text: str, outputs: Mapping[str, tuple[float, ...]]) -> str:
    """The canary answers so; what else is said of its outputs stays. Raises ConfigError."""
    canary = dict(_document(text)["canary"])
    held = canary.get("outputs") or {}
    canary["outputs"] = {
        name: {**held.get(name, {}), "first": [float(value) for value in first]}
        for name, first in outputs.items()
    }
    return yaml_editing.with_key(text, "canary", canary)


def pulled_text(text: str, local: str) -> str:
    """Of a version from a registry: how it is served is what the `local` model.yaml says of the
    version before it, how large its batches are to grow included. Raises ConfigError."""
    theirs, ours = _document(text), _document(local)
    for key in _SITE_KEYS:
        if key in ours and ours[key] != theirs.get(key):
            text = yaml_editing.with_key(text, key, ours[key])
    batching = dict(theirs.get("batching") or {})
    tuned = {key: value for key, value in (ours.get("batching") or {}).items() if key in _TUNED}
    if batching.get("dynamic", True) and not tuned.items() <= batching.items():
        text = yaml_editing.with_key(text, "batching", {**batching, **tuned})
    return text


def other_interface(before: Declaration, after: Declaration) -> str | None:
    """What of the interface differs: one that differs is another model's."""
    for what in ("inputs", "outputs", "decoupled", "max_batch"):
        if getattr(before, what) != getattr(after, what):  # guard: R2.same-interface
            return what
    return None


def _document(text: str) -> dict[str, Any]:
    """Of a text that was read as a declaration before."""
    return dict(yaml.safe_load(text))
