"""How many conversations of clean prompts are restricted, through the API of a running gateway.

    python -m loadtests.classify.conversations [--data FOLDER] [--profiles balanced]

A conversation has one to five turns of the user (two in the mean), in seven of ten behind a system
prompt from a stock of 40; each turn is a call of its own, with all that was said before, as chat
clients send it. What is said is prompts without personal data, joined to lognormal lengths (median
330 characters) and never cut. They come from `--data`, a folder or file of JSONL with `text` and
`benign_class`, of the `--classes` that are asked for; by default from `prompts.jsonl` beside this
file: `none`, and classes that look like personal data. A conversation is in one language.

The gateway is run as its users run it: `spillway serve` with a key, the audit on, and one model
that a provider serves, so that every call that is clear leaves. What became of each call is read
from the audit. A conversation is restricted when one of its calls is; those after it are `tainted`.
Shares have the 95 % interval of Wilson (1927).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.accounting.audit.journal.segments import read_lines, segments
from loadtests.http import Client
from loadtests.peers.process import Process
from loadtests.ports import free_port

OWN = Path(__file__).with_name("prompts.jsonl")
PROFILES = ("patterns", "balanced", "strict")
_TURNS = (1, 1, 1, 2, 2, 2, 3, 4, 5)
_SYSTEM_PROMPTS, _SYSTEM_SHARE = 40, 0.7
_MEDIAN, _SPREAD, _LONGEST = 330, 1.0, 20_000  # characters
_AT_ONCE = 4  # conversations
_START_S = 180.0
_Z = 1.959964  # two-sided 95 %

_PATH = "/v1/chat/completions"
_KEY = "conversations"
_SETTINGS = """
listen: {{http_port: 0, grpc_port: 0}}
classify: {{profile: {profile}, budget_ms: 20000}}
limits: {{default_latency_budget_ms: 60000, max_latency_budget_ms: 60000}}
keys:
  caller: {{key: "${{SPILLWAY_LOAD_KEY}}", tenant: caller}}
endpoints:
  provider: {{kind: openai, zone: cloud, url: "http://127.0.0.1:{port}/v1", expected_ms: 2,
             max_in_flight: 64}}
models:
  chat:
    task: generate
    served_by: [{{endpoint: provider, model: echo, price_usd: 0.000001}}]
audit: {{directory: "{scratch}/audit"}}
log: {{level: warning}}
"""


@dataclass(slots=True)
class Verdicts:
    """Of one profile: what became of the calls, and of the conversations."""

    conversations: int = 0
    restricted_conversations: int = 0
    calls: int = 0
    restricted_calls: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of the first restricted call
    types: Counter[str] = field(default_factory=Counter)
    values: list[str] = field(default_factory=list)  # the conversations, to look at

    def count(self, chat: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]) -> None:
        restricted = [r for r in records if r["sensitivity"] != "clear"]
        self.conversations += 1
        self.calls += len(records)
        self.restricted_calls += len(restricted)
        if restricted:
            self.restricted_conversations += 1
            self.reasons[restricted[0]["classify_reason"]] += 1
            self.types.update(set(restricted[0]["entities"]))
            self.values.append(json.dumps([restricted[0]["entities"], chat], ensure_ascii=False))


def wilson(part: int, total: int) -> tuple[float, float]:
    """The interval in which the share lies with 95 % confidence."""
    if not total:
        return 0.0, 1.0
    share, spread = part / total, _Z * _Z / total
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def prompts(path: Path, classes: Sequence[str], languages: Sequence[str]) -> dict[str, list[str]]:
    """Texts by language: of those that are asked for, or of all."""
    texts: dict[str, list[str]] = defaultdict(list)
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            wanted = not languages or record.get("lang") in languages
            if wanted and record.get("benign_class") in classes:
                texts[record.get("lang", "")].append(record["text"])
    return texts


def conversations(
    texts: Mapping[str, Sequence[str]], count: int, seed: int
) -> Iterator[list[dict[str, str]]]:
    """Each in one language, which is drawn by the number of its prompts."""
    chance = random.Random(seed)

    def said(language: str, median: float) -> str:
        length = min(_LONGEST, median * chance.lognormvariate(0, _SPREAD))
        parts = [chance.choice(texts[language])]
        while sum(map(len, parts)) < length:
            parts.append(chance.choice(texts[language]))
        return "\n\n".join(parts)

    languages = sorted(texts)
    systems = {
        language: [said(language, 400) for _ in range(_SYSTEM_PROMPTS)] for language in languages
    }
    shares = [len(texts[language]) for language in languages]
    for language in chance.choices(languages, shares, k=count):
        chat = []
        if chance.random() < _SYSTEM_SHARE:
            chat.append({"role": "system", "content": chance.choice(systems[language])})
        for turn in range(2 * chance.choice(_TURNS) - 1):
            role = "assistant" if turn % 2 else "user"
            chat.append({"role": role, "content": said(language, _MEDIAN)})
        yield chat


async def send(url: str, chats: Sequence[list[dict[str, str]]]) -> list[list[str]]:
    """The ids of the calls of each conversation. Raises SystemExit where one is refused unread."""
    headers = {"authorization": f"Bearer {_KEY}"}
    room = asyncio.Semaphore(_AT_ONCE)

    async def talk(chat: list[dict[str, str]]) -> list[str]:
        ids: list[str] = []
        async with room:
            for end, message in enumerate(chat, 1):
                if message["role"] != "user":
                    continue
                body = {"model": "chat", "messages": chat[:end], "max_tokens": 8}
                answer = await client.post(_PATH, json.dumps(body).encode(), headers)
                if answer.status in (400, 401, 404):
                    raise SystemExit(f"the gateway refused a call: {answer.body[:300]!r}")
                ids.append(answer.headers["x-request-id"])
        return ids

    async with Client(url) as client:
        return list(await asyncio.gather(*map(talk, chats)))


def audited(profile: str, chats: Sequence[list[dict[str, str]]]) -> list[list[dict[str, Any]]]:
    """The records of the calls of each conversation, through a gateway of its own beside a backend
    that says the same to everybody."""
    with tempfile.TemporaryDirectory() as folder:
        scratch, port = Path(folder), free_port()
        settings, ready = scratch / "spillway.yaml", scratch / "ready.json"
        settings.write_text(_SETTINGS.format(profile=profile, port=port, scratch=scratch))
        python = [sys.executable, "-m"]
        provider = Process([*python, "loadtests.echo", "--port", str(port)], scratch / "echo.log")
        gateway = Process(
            [*python, "gateway", "serve", "--config", settings, "--ready-file", ready],
            scratch / "log",
            {"SPILLWAY_LOAD_KEY": _KEY},
        )
        try:
            gateway.await_file(ready, _START_S)
            url = f"http://127.0.0.1:{json.loads(ready.read_text())['http_port']}"
            ids = asyncio.run(send(url, chats))
        finally:
            gateway.stop()
            provider.stop()
        lines = (line for part in segments(scratch / "audit") for line in read_lines(part.path))
        calls = (record for record in map(json.loads, lines) if record["kind"] == "call")
        records = {record["id"]: record for record in calls}
    return [[records[call] for call in some] for some in ids]


def run(profile: str, chats: Sequence[list[dict[str, str]]]) -> Verdicts:
    verdicts = Verdicts()
    for chat, records in zip(chats, audited(profile, chats), strict=True):
        verdicts.count(chat, records)
    return verdicts


def lines(profile: str, verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    for what, part, total in (
        ("conversations", verdicts.restricted_conversations, verdicts.conversations),
        ("calls", verdicts.restricted_calls, verdicts.calls),
    ):
        low, high = wilson(part, total)
        yield {
            "profile": profile, "of": what, "restricted": part, "total": total,
            "share": round(part / max(1, total), 4), "low": round(low, 4), "high": round(high, 4),
            "reasons": dict(verdicts.reasons.most_common()),
            "types": dict(verdicts.types.most_common()),
        }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.classify.conversations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=OWN, help="folder or file of JSONL")
    parser.add_argument("--classes", nargs="*", default=["none"])
    parser.add_argument("--languages", nargs="*", default=[])
    parser.add_argument("--profiles", nargs="*", default=list(PROFILES), choices=PROFILES)
    parser.add_argument("--conversations", type=int, default=400, help="how many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="the restricted ones, on stderr")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    texts = prompts(given.data, given.classes, given.languages)
    if not texts:
        print(f"{given.data}: no such prompts", file=sys.stderr)
        return 2
    chats = list(conversations(texts, given.conversations, given.seed))
    for profile in given.profiles:
        verdicts = run(profile, chats)
        for line in lines(profile, verdicts):
            print(json.dumps(line) if given.json else _row(line), flush=True)
        if given.show:
            print("\n".join(verdicts.values), file=sys.stderr)
    return 0


def _row(line: dict[str, Any]) -> str:
    interval = f"{100 * line['share']:5.1f} % ({100 * line['low']:.1f} to {100 * line['high']:.1f})"
    causes = ", ".join(f"{n} {name}" for name, n in {**line["reasons"], **line["types"]}.items())
    restricted = f"{line['restricted']} of {line['total']} {line['of']}"
    return f"{line['profile']:9} {restricted:28} {interval}  {causes}"


if __name__ == "__main__":
    sys.exit(main())
