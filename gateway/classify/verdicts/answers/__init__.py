"""Findings in answers, where the settings want them (`classify.answers`), and their masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias

from gateway.core.reply import Placement
from gateway.core.structs import value
from gateway.core.types import InferenceRequest

CLEAR_ANSWER, ENTITIES, BROKEN = "clear", "entities", "answer_broken"


@value
class AnswerReading:
    """What reading an answer has shown: types and counts, never the text."""

    reason: str  # 'clear', 'entities', or why it could not be read
    entities: Mapping[str, int] = field(default_factory=dict)  # outside of tool calls
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    masked: int = 0  # places
    withheld: bool = False  # its caller got an error in its place, or in that of its rest


AnswerReport: TypeAlias = Callable[[InferenceRequest, Placement, AnswerReading], None]
"""Is given each answer's reading, once. Neither waits nor raises."""
