"""Every model's config, read as Triton reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message
from tritonclient.grpc import model_config_pb2

from .serving import MODELS, TEST_MODELS

CONFIGS = sorted([*MODELS.glob("*/config.pbtxt"), *TEST_MODELS.glob("*/config.pbtxt")])

# Any of these under dynamic batching makes the batcher of Triton 2.51 sleep through its wake-up
# (triton-inference-server/server#8870). Order, deadlines and limits are the gateway's queue's.
FAULTY = (
    "priority_levels: 2",
    "default_priority_level: 1",
    "default_queue_policy { default_timeout_microseconds: 1000 }",
    "default_queue_policy { allow_timeout_override: true }",
    "default_queue_policy { max_queue_size: 16 }",
    "priority_queue_policy { key: 1 value { max_queue_size: 16 } }",
)
FAULTY_FIELDS = {text.split()[0].rstrip(":") for text in FAULTY}


def fields(message: Message) -> set[str]:
    """The names of all fields that are set, at any depth outside maps."""
    found = set()
    for field, value in message.ListFields():
        found.add(field.name)
        for part in value if field.is_repeated else [value]:
            if isinstance(part, Message):
                found |= fields(part)
    return found


def parsed(text: str) -> model_config_pb2.ModelConfig:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_a_config_avoids_the_fault_of_tritons_batcher(path: Path) -> None:
    assert not fields(parsed(path.read_text())) & FAULTY_FIELDS


@pytest.mark.parametrize("option", FAULTY)
def test_the_check_above_sees_every_option_that_wakes_the_fault(option: str) -> None:
    assert fields(parsed(f"dynamic_batching {{ {option} }}")) & FAULTY_FIELDS


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_a_config_is_complete_and_asks_for_one_process_without_a_gpu(path: Path) -> None:
    config = parsed(path.read_text())
    assert (config.name, config.backend) == (path.parent.name, "python")
    assert config.input
    assert config.output
    (group,) = config.instance_group
    assert (group.count, group.kind) == (1, group.KIND_CPU)
