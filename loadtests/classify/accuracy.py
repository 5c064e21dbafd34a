"""What the classifier finds in annotated texts: `python -m loadtests.classify.accuracy --data DIR`.

DIR holds JSONL files, a record a line: `{"id","text","lang","spans":[{"start","end","type","raw"}],
"pii"}`, offsets in characters; a file whose records have `benign_class` is one of clean prompts,
one whose records have `expect` is one of hidden data (`sensitive`) and look-alikes (`benign`).

Every text goes through `spillway classify --jsonl`, as a user would do it, in both profiles; with
`--api` whether a call is restricted is asked of a running gateway, a call for each text. Part of
these sets trained the names model: `--held-out` counts only the fifth that did not. Shares have the
95 % interval of Wilson.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtests.classify.conversations import audited, wilson

NUMBERS = {
    "CREDIT_CARD": {"CREDIT_CARD"},
    "PHONE_NUMBER": {"PHONE_NUMBER"},
    "IBAN_CODE": {"IBAN_CODE"},
    "US_SSN": {"US_SSN"},
    "IP_ADDRESS": {"IP_ADDRESS"},
    "EMAIL_ADDRESS": {"EMAIL_ADDRESS"},
}
"""Types whose spans are counted, and the types of findings that count as one of them."""
ADDRESSES = {"ADDRESS", "STREET_ADDRESS"}
HELD_OUT_BELOW = 51  # of the first byte of the text's SHA-256, as in models/names/training/sets.py
TITLES = (
    "M. ", "Mme ", "MM. ", "Mlle ", "Mr ", "Mr. ", "Mrs ", "Mrs. ", "Ms ", "Ms. ", "Sir ", "Dr. ",
    "Dr ", "Sr. ", "Sra. ", "D. ", "Don ", "Doña ", "Herr ", "Frau ", "Lord ", "Me ",
)  # fmt: skip


@dataclass(slots=True)
class Counts:
    """True positives, false positives, false negatives."""

    found: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def recall(self) -> float:
        return self.found / max(1, self.found + self.missed)

    @property
    def precision(self) -> float:
        return self.found / max(1, self.found + self.wrong)

    @property
    def f1(self) -> float:
        return 2 * self.found / max(1, 2 * self.found + self.wrong + self.missed)


@dataclass(slots=True)
class Told:
    """What was counted on one set."""

    texts: int = 0
    identified: Counts = field(default_factory=Counts)  # calls with a direct identifier (strict)
    alarms: Counter[str] = field(default_factory=Counter)  # clean texts flagged, by class
    clean: Counter[str] = field(default_factory=Counter)
    persons: Counts = field(default_factory=Counts)
    numbers: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    addresses: Counts = field(default_factory=Counts)
    full_names: Counts = field(default_factory=Counts)  # calls with a full name (balanced)


def held_out(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] < HELD_OUT_BELOW


def records(path: Path, only_held_out: bool) -> list[dict[str, Any]]:
    found = []
    for line in path.read_text("utf-8").splitlines():
        record = json.loads(line)
        trained_on = not path.name.startswith(("ambientmeta", "evasion"))
        untrained_class = record.get("benign_class", "none") != "none"
        if only_held_out and trained_on and not untrained_class and not held_out(record["text"]):
            continue
        if record.get("binary") == "base64":  # its text is given encoded
            continue
        found.append(record)
    return found


def verdicts(found: Sequence[Mapping[str, Any]], profile: str) -> list[dict[str, Any]]:
    """One verdict a record, in order, from the command that users have."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as source:
        for at, record in enumerate(found):
            source.write(json.dumps({"id": at, "text": record["text"]}) + "\n")
        source.flush()
        command = [sys.executable, "-m", "gateway", "classify", "--jsonl", source.name]
        run = subprocess.run(
            [*command, "--profile", profile, "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if run.returncode != 0:
        raise SystemExit(f"spillway classify ended with {run.returncode}: {run.stderr[-500:]}")
    told = [json.loads(line) for line in run.stdout.splitlines()]
    assert [line["id"] for line in told] == list(range(len(found)))
    return told


def through_api(told: Sequence[dict[str, Any]], texts: Sequence[str], profile: str) -> None:
    """What a gateway says in the place of the command."""
    chats = [[{"role": "user", "content": text}] for text in texts]
    for line, (record,) in zip(told, audited(profile, chats), strict=True):
        line["sensitivity"] = record["sensitivity"]


def count(
    found: Sequence[Mapping[str, Any]],
    strict: Sequence[Mapping[str, Any]],
    balanced: Sequence[Mapping[str, Any]],
) -> Told:
    told = Told(texts=len(found))
    for record, tight, usual in zip(found, strict, balanced, strict=True):
        _count_verdicts(told, record, tight, usual)
        _count_spans(told, record, tight["findings"])
    return told


def _count_verdicts(
    told: Told, record: Mapping[str, Any], tight: Mapping[str, Any], usual: Mapping[str, Any]
) -> None:
    flagged = tight["sensitivity"] == "restricted"
    if "expect" in record:
        wanted = record["expect"] == "sensitive"
        _tick(told.identified, wanted, usual["sensitivity"] == "restricted")
    elif "benign_class" in record:
        kind = record["benign_class"]
        told.clean[f"{kind}, strict"] += 1
        told.alarms[f"{kind}, strict"] += flagged
        told.clean[f"{kind}, balanced"] += 1
        told.alarms[f"{kind}, balanced"] += usual["sensitivity"] == "restricted"
    else:
        _tick(told.identified, record["pii"], flagged)
        text = record["text"]
        full = [
            s for s in record.get("spans", ())
            if s["type"] == "PERSON" and len(_bare(text[s["start"] : s["end"]]).split()) > 1
        ]  # fmt: skip
        if full:
            _tick(told.full_names, True, usual["sensitivity"] == "restricted")


def _tick(counts: Counts, wanted: bool, got: bool) -> None:
    counts.found += wanted and got
    counts.missed += wanted and not got
    counts.wrong += got and not wanted


def _bare(name: str) -> str:
    """A name without the title before it, which some sets take as part of it."""
    for title in TITLES:
        if name.startswith(title) and len(name) > len(title) + 1:
            return _bare(name[len(title) :])
    return name


def _count_spans(
    told: Told, record: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]
) -> None:
    text = record["text"]
    gold = {
        (s["end"] - len(_bare(text[s["start"] : s["end"]])), s["end"])
        for s in record.get("spans", ())
        if s["type"] == "PERSON"
    }
    got = {(f["start"], f["end"]) for f in findings if f["type"] == "PERSON"}
    told.persons.found += len(gold & got)
    told.persons.missed += len(gold - got)
    told.persons.wrong += len(got - gold)
    for kind, accepted in NUMBERS.items():
        _overlaps(
            told.numbers[kind],
            [s for s in record.get("spans", ()) if s["type"] == kind],
            [f for f in findings if f["type"] in accepted],
        )
    _overlaps(
        told.addresses,
        [s for s in record.get("spans", ()) if s["raw"] in ADDRESSES],
        [f for f in findings if f["type"] == "STREET_ADDRESS"],
    )


def _overlaps(
    counts: Counts, gold: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]
) -> None:
    for span in gold:
        hit = any(f["start"] < span["end"] and span["start"] < f["end"] for f in got)
        counts.found += hit
        counts.missed += not hit
    counts.wrong += sum(
        not any(f["start"] < s["end"] and s["start"] < f["end"] for s in gold) for f in got
    )


def lines(name: str, told: Told) -> Iterable[tuple[str, str, str]]:
    """(set, what, figure)"""
    if told.clean:
        for kind, total in sorted(told.clean.items()):
            yield name, f"flagged: {kind}", _share(told.alarms[kind], total)
        return
    identified = told.identified
    if identified.found + identified.missed:
        total = identified.found + identified.missed
        yield name, "calls with an identifier found", _share(identified.found, total)
        yield name, "calls without one flagged", _share(identified.wrong, told.texts - total)
    if told.full_names.found + told.full_names.missed:
        total = told.full_names.found + told.full_names.missed
        yield name, "calls with a full name found, balanced", _share(told.full_names.found, total)
    persons = told.persons
    if persons.found + persons.missed:
        yield name, "PERSON, exact span F1", f"{persons.f1:.3f}"
    for kind, counts in [*told.numbers.items(), ("STREET_ADDRESS", told.addresses)]:
        total = counts.found + counts.missed
        if total:
            yield (
                name,
                f"{kind} spans found",
                f"{_share(counts.found, total)}, precision {counts.precision:.3f}",
            )


def _share(part: int, total: int) -> str:
    low, high = wilson(part, total)
    share = 100 * part / max(1, total)
    return f"{part} of {total} ({share:.1f} %, {100 * low:.1f} to {100 * high:.1f})"


def _parts(
    name: str, found: Sequence[Mapping[str, Any]], by_language: bool
) -> dict[str, list[int]]:
    parts: dict[str, list[int]] = defaultdict(list)
    for at, record in enumerate(found):
        parts[f"{name} {record.get('lang', '')}".rstrip() if by_language else name].append(at)
    return parts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of *.jsonl")
    parser.add_argument("--held-out", action="store_true", help="only what did not train the model")
    parser.add_argument("--only", nargs="*", help="names of sets")
    parser.add_argument("--api", action="store_true", help="ask a running gateway for verdicts")
    parser.add_argument("--by-language", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    paths = sorted(args.data.glob("*.jsonl"))
    if not paths:
        print(f"{args.data}: no *.jsonl files", file=sys.stderr)
        return 2
    table = []
    for path in paths:
        name = path.name.split(".")[0]
        if args.only and name not in args.only:
            continue
        found = records(path, args.held_out)
        strict, balanced = verdicts(found, "strict"), verdicts(found, "balanced")
        if args.api:
            texts = [record["text"] for record in found]
            through_api(strict, texts, "strict")
            through_api(balanced, texts, "balanced")
        for part, rows in _parts(name, found, args.by_language).items():
            told = count(*([some[at] for at in rows] for some in (found, strict, balanced)))
            for row in lines(part, told):
                table.append(row)
                if not args.json:
                    print(f"{row[0]:26} {row[1]:42} {row[2]}", flush=True)
    if args.json:
        print(json.dumps([dict(zip(("set", "what", "figure"), row, strict=True)) for row in table]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
