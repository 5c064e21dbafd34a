"""What in a Triton model repository makes Triton's batcher stall (BEHAVIOURS S8), or keeps answers.

With dynamic batching, any of these options switches pre-fetching off, and the batcher sleeps
through its wake-up (triton-inference-server/server#8870): seen on 2.51, and no release is known to
mend it.
Order, deadlines and limits are the gateway's queue's (docs/decisions/010-embedded-triton.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import Message
from tritonclient.grpc import model_config_pb2

STALLING = frozenset(
    {
        "priority_levels",
        "default_priority_level",
        "default_queue_policy",
        "priority_queue_policy",
    }
)
_OPTIONS = ("default_timeout_microseconds", "allow_timeout_override", "max_queue_size")


@dataclass(frozen=True, slots=True)
class Hazard:
    """A model whose batching can stall, whose answers are kept, or whose config cannot be read."""

    model: str
    config: Path
    text: str


def hazards(repository: Path) -> list[Hazard]:
    return [h for path in sorted(repository.glob("*/config.pbtxt")) for h in _in_config(path)]


def _in_config(path: Path) -> Iterator[Hazard]:
    config = model_config_pb2.ModelConfig()
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), config, allow_unknown_field=True)
    except (OSError, ValueError, text_format.ParseError) as exc:
        yield Hazard(path.parent.name, path, f"cannot be read: {type(exc).__name__}")
        return
    if config.response_cache.enable:  # guard: E3.response-cache
        yield Hazard(path.parent.name, path, CACHED)
    options = sorted(stalling_options(config.dynamic_batching))
    if options:
        yield Hazard(
            path.parent.name,
            path,
            f"dynamic_batching has {', '.join(options)}, with which Triton's batcher can stall "
            "(server#8870); drop it: the gateway's queue has priorities, deadlines and limits",
        )


def loaded_versions(directory: Path) -> set[str]:
    """Those of a model's versions that a server loads, by the policy in its config.pbtxt."""
    there = {int(p.name) for p in directory.glob("[1-9]*") if p.is_dir() and p.name.isdecimal()}
    config = model_config_pb2.ModelConfig()
    try:
        text = (directory / "config.pbtxt").read_text(encoding="utf-8")
        text_format.Parse(text, config, allow_unknown_field=True)
    except (OSError, ValueError, text_format.ParseError):
        return set()
    policy = config.version_policy
    if policy.HasField("specific"):
        there &= set(policy.specific.versions)
    elif not policy.HasField("all"):
        there = set(sorted(there)[-(policy.latest.num_versions or 1) :])
    return {str(version) for version in there}


CACHED = (
    "response_cache is on: Triton would keep what callers were answered, restricted data among it, "
    "and give it to whoever asks the same; drop it"
)


def stalling_options(batching: Message) -> set[str]:
    """Of a `ModelDynamicBatching`: what is set that wakes the fault."""
    options = set()
    for field, value in batching.ListFields():
        if field.name not in STALLING:
            continue
        inner = {f.name for f, _ in value.ListFields()} if isinstance(value, Message) else set()
        options |= {f"{field.name}.{name}" for name in inner if name in _OPTIONS} or {field.name}
    return options  # guard: S8.fault-options options -> set()
