"""Chats of which no two are alike, for `--calls`: `python -m loadtests.load.mixed > calls.jsonl`.

One turn to nine, system prompts in most, from a stock that is used again and again; prose, code and
JSON in lognormal lengths (median 300 characters a message); settings, order of keys, tools, request
ids and trace contexts vary; every sixth chat comes back with one more turn.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from typing import Any

from loadtests.classify.engine import CODE, PROSE
from loadtests.load.words import Words

_LONGEST = 16_000
_SYSTEM_PROMPTS = 30


class _Texts:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._words = Words(400, chance.randrange(1 << 30))

    def text(self, median: int, spread: float = 1.0) -> str:
        """Parts of made-up words, prose and code; lengths are lognormal."""
        chance = self._chance
        length = max(4, min(_LONGEST, int(median * chance.lognormvariate(0, spread))))
        parts: list[str] = []
        while sum(map(len, parts)) < length:
            kind = chance.random()
            if kind < 0.5:
                parts.append(self._words.next().decode()[: chance.randrange(40, 400)].capitalize())
            else:
                parts.append(chance.choice(PROSE if kind < 0.8 else CODE))
        return chance.choice((" ", "\n\n")).join(parts)[:length]


def calls(count: int, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    texts = _Texts(chance)
    systems = [texts.text(500, 0.7) for _ in range(_SYSTEM_PROMPTS)]
    chats: list[list[dict[str, str]]] = []
    for _ in range(count):
        if chats and chance.random() < 1 / 6:
            messages = chats.pop(chance.randrange(len(chats)))
            messages.append({"role": "assistant", "content": texts.text(500)})
            messages.append({"role": "user", "content": texts.text(200)})
        else:
            messages = []
            if chance.random() < 0.7:
                messages.append({"role": "system", "content": chance.choice(systems)})
            for turn in range(chance.choice((1, 1, 1, 3, 3, 5, 9))):
                role = "assistant" if turn % 2 else "user"
                messages.append({"role": role, "content": texts.text(300)})
        chats.append(messages)
        yield {"headers": _headers(chance), "body": _body(chance, texts, messages)}


def _body(
    chance: random.Random, texts: _Texts, messages: list[dict[str, str]]
) -> dict[str, object]:
    fields: dict[str, object] = {"model": "", "messages": list(messages)}
    optional: tuple[tuple[float, str, object], ...] = (
        (0.9, "max_tokens", chance.choice((64, 100, 256, 1024))),
        (0.6, "temperature", round(chance.random(), 2)),
        (0.3, "top_p", 0.95),
        (0.2, "user", f"u-{chance.getrandbits(40):x}"),
        (0.15, "tools", [_tool(texts)]),
    )
    fields |= {name: value for share, name, value in optional if chance.random() < share}
    keys = list(fields)
    chance.shuffle(keys)
    return {key: fields[key] for key in keys}


def _tool(texts: _Texts) -> dict[str, object]:
    query = {"type": "object", "properties": {"query": {"type": "string"}}}
    function = {"name": "lookup", "description": texts.text(120), "parameters": query}
    return {"type": "function", "function": function}


def _headers(chance: random.Random) -> dict[str, str]:
    headers = {}
    if chance.random() < 0.5:
        trace, span = chance.getrandbits(128), chance.getrandbits(64)
        headers["traceparent"] = f"00-{trace:032x}-{span:016x}-01"
    if chance.random() < 0.5:
        headers["x-request-id"] = f"{chance.getrandbits(64):016x}"
    return headers


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.load.mixed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for call in calls(given.calls, given.seed):
        print(json.dumps(call))


if __name__ == "__main__":
    main()
