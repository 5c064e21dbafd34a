"""What it costs to read answers: `python -m loadtests.bench.answers --recorded FILE`.

The answers are the last texts of recorded chats (`loadtests.load.mixed`), whole and as streams of
four characters an event. Processor time of this process and its scan workers in ms an answer, as
the kernel counts it: `off` (nothing reads), `report` and `masks`, in both of these profiles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gateway.classify.classifier import Classifier
from gateway.classify.text.spans import FullFindings
from gateway.classify.verdicts.answers.reader import AnswerInspector
from gateway.classify.verdicts.readers import names_search, scan_pool
from gateway.config import ClassifySettings
from gateway.core.deadline import Deadline
from gateway.core.errors import AnswerWithheld
from gateway.core.operations.chat import CHAT
from gateway.core.reply import (
    Frame,
    InferenceReply,
    JsonBody,
    OneFrame,
    Placement,
    Receiver,
    ServerEvent,
    received,
)
from gateway.core.types import (
    DocumentCall,
    InferenceRequest,
    Sensitivity,
    Tightening,
    WireProtocol,
    Zone,
)
from loadtests.bench.classify import catalog

_PLACEMENT = Placement(Zone.CLOUD, "cloud", "onprem_full", 1, Sensitivity.CLEAR, 0.0)
_PIECE = 4  # characters
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class _Events:
    def __init__(self, events: Sequence[Frame]) -> None:
        self._events = events

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        for event in self._events:
            if not receiver.put(event):
                await receiver.room()

    async def aclose(self) -> None: ...


def _choice(key: str, content: str) -> bytes:
    choice = {"index": 0, key: {"content": content}, "finish_reason": None}
    return json.dumps({"id": "chatcmpl-1", "object": "chat", "choices": [choice]}).encode()


def _reply(text: str, streamed: bool) -> InferenceReply:
    if not streamed:
        return InferenceReply(_PLACEMENT, OneFrame(JsonBody(_choice("message", text))))
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return InferenceReply(_PLACEMENT, _Events([ServerEvent(_choice("delta", p)) for p in pieces]))


def _cpu_s() -> float:
    """Of this process and its children, which live on."""
    pids = [os.getpid()]
    for task in Path("/proc/self/task").iterdir():
        pids += map(int, (task / "children").read_text().split())
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) * _TICK_S


async def _measured(profile: str, texts: Sequence[str]) -> None:
    settings, added = ClassifySettings.model_validate({"profile": profile}), ()
    names, pool = names_search(settings, added, None), scan_pool(settings)
    made = Classifier(settings, catalog(), pool, time.monotonic, names=names)
    finder = FullFindings(settings, added, names)
    await made.start()
    await finder.start()
    shown: dict[str, str] = {}

    async def handle(request: InferenceRequest) -> InferenceReply:
        return _reply(shown["text"], request.streamed)

    counts = {"restricted": 0}
    inspector = AnswerInspector(
        handle, made.answer_verdicts(), finder, False,
        lambda request, placement, reading: counts.update(
            restricted=counts["restricted"] + (reading.reason != "clear")
        ),
    )  # fmt: skip
    request = InferenceRequest(
        "r", WireProtocol.OPENAI, "t", "m", DocumentCall(CHAT, {}), Deadline.after(3600.0)
    )
    masks = replace(request, tightening=Tightening(answers_masked=True))
    for streamed in (False, True):
        payload = DocumentCall(CHAT, {}, streamed)
        rows = {"off": (handle, request), "report": (inspector.handle, request),
                "masks": (inspector.handle, masks)}  # fmt: skip
        for name, (answer, call) in rows.items():
            counts["restricted"], refused, began_s = 0, 0, _cpu_s()
            for number, text in enumerate(texts):
                shown["text"] = text
                own = replace(call, payload=payload, tenant=f"{name}-{streamed}-{number}")
                try:
                    await received((await answer(own)).frames)
                except AnswerWithheld:
                    refused += 1
            spent_ms = (_cpu_s() - began_s) / len(texts) * 1e3
            form = "stream" if streamed else "whole"
            print(
                f"{profile:9} {form:7} {name:7} {spent_ms:8.2f} ms an answer, "
                f"{counts['restricted']} of {len(texts)} restricted, {refused} withheld"
            )
    await finder.aclose()
    await made.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", type=Path, required=True)
    parser.add_argument("--answers", type=int, default=200)
    given = parser.parse_args()
    texts = []
    with given.recorded.open() as lines:
        for line in lines:
            last = json.loads(line)["body"]["messages"][-1]["content"]
            if isinstance(last, str):
                texts.append(last)
            if len(texts) == given.answers:
                break
    print(f"{sum(map(len, texts)) / len(texts):,.0f} characters an answer")
    for profile in ("patterns", "balanced"):
        asyncio.run(_measured(profile, texts))


if __name__ == "__main__":
    main()
