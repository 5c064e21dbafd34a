"""The texts that keep a scan worker busy longest: `python -m loadtests.classify.worst_case`.

64 KB each, of seeds that were found by hand and by trying: one seed repeated, or two in turn, some
of it encoded. `--fuzz SECONDS` goes on from the worst ones and climbs: it puts tokens in, takes
parts out, mixes and encodes, and keeps what costs more; `--save FILE` keeps the worst text. All
time is the processor's, and the worst texts count with their least of three runs, so that a busy
machine does not count.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.classify import TooMany
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import FirstVerdict
from gateway.config import ClassifySettings

SIZE = 65_000
_KEPT = 24
"""Texts that the search goes on from."""

TOKENS = (
    *("a.", "a@", "a@a.", "a", "A", "1", "é", "1 ", "12-", "1.", "1,2 ", "0 1 ", "1234 "),
    *("12.34.", "99-99-", "::", "a:", "A1 ", "x1 lic ", "MRN ", "passport ", "one ", "five six "),
    *("zero,", "[at]", " at a dot ", "a at b. ", "-----", "=3D", "%41", "&amp;", "&#65;"),
    *(
        "\\u0041",
        "**a",
        "<b>",
        "__",
        "\u200b",
        "\uff11",
        "\u0430a",
        "\u0430born ",
        "4F 6B ",
        "65, ",
    ),
    *("QUJD", "aGVsbG8gd29ybGQgdGhlcmU= ", "12 High ", "St. ", "IBAN DE", "DE89 ", "+1 ", "(0"),
    *("tel ", "born ", "password=", "sk-", "eyJ", "https://", "\n", "| 1 ", "a\n"),
    *("4111 1111 1111 1112 ", "411111111111111", "the quick brown fox ", "300.1.2.3, ", "ssn "),
    *("dni ", "nif ", "bsn ", "tel: 1", "account no ", "12.12.1990 ", "PESEL ", "1 Main ", "key"),
    *("\u202e", "\u2003", "\uff21\uff22", "sechs,", "@ a . b ", "\\x41", "#1", "John ", "0"),
    *("Aa-Bb ", "1 Aa-", "Str ", "Calle ", "PL ", "NW1 ", "C. ", "iban", "bc1", "d.o.b", "vat "),
    *("(*", "ab1"),
)


def repeated(seed: str, size: int = SIZE) -> str:
    return (seed * (size // len(seed) + 1))[:size]


def texts() -> dict[str, str]:
    """By what they are made of."""
    found = {repr(seed): repeated(seed) for seed in TOKENS}
    found |= {
        repr(seed): repeated(seed)
        for seed in (
            "\u0430a" * 10 + "0 1 password=",
            "300.1.2.3, " * 15 + "the quick brown fox " * 40,
            "111=3D::",
            "\uff11\uff11\uff11\uff11\uff11\uff11\uff111234 __",
        )
    }
    nested = "the quick brown fox 1 "
    for depth in range(1, 5):
        nested = base64.b64encode(nested.encode()).decode() + " "
        found[f"base64, {depth} deep"] = repeated(nested)
    rng = random.Random(1)
    found["base64 of many"] = " ".join(_encoded(f"{rng.random():.12f}") for _ in range(SIZE // 17))
    found["cards of many"] = "; ".join(_digits(rng, 4, " ") for _ in range(SIZE // 21))
    found["words for numbers"] = " ".join(
        rng.choice(("nif", "niss", "vat", "rib", "tel", "born", "dea", "uid", "1", "a1"))
        for _ in range(SIZE // 4)
    )
    return {name: text[:SIZE] for name, text in found.items()}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def _digits(rng: random.Random, groups: int, between: str) -> str:
    return between.join(f"{rng.randrange(10_000):04}" for _ in range(groups))


def cost_ms(scan: Callable[[str], object], text: str, times: int = 3) -> float:
    """The least of some runs."""
    return min(_once_ms(scan, text) for _ in range(times))


def _once_ms(scan: Callable[[str], object], text: str) -> float:
    started_s = time.process_time()
    with contextlib.suppress(TooMany):  # a verdict too
        scan(text)
    return (time.process_time() - started_s) * 1e3


def mutated(text: str, rng: random.Random, others: Sequence[str] = ()) -> str:
    """One step of the search."""
    token = "".join(rng.choices(TOKENS, k=rng.choice((1, 1, 2, 3, 5))))
    every = rng.choice((3, 7, 20, 61, 300, 2000))
    at = rng.randrange(max(1, len(text)))
    match rng.randrange(7):
        case 0:  # a token between all parts
            text = token.join(text[i : i + every] for i in range(0, len(text), every))
        case 1:  # a unit of the text and a token, over and over
            text = repeated(text[at : at + every] + token)
        case 2:  # a stretch of something else
            text = text[:at] + token * rng.randrange(1, 2000) + text[at:]
        case 3:
            text = text[:at] + text[at + every :]
        case 4 if others:
            other = rng.choice(others)
            text = text[:at] + other[at:]
        case 5:  # encoded runs
            runs = (text[i : i + every] for i in range(at, len(text), every))
            text = text[:at] + " ".join(map(_encoded, runs))
        case _:  # numbers, no two of them the same
            between = rng.choice((token, " ", ", ", "; a"))
            numbers = (_digits(rng, rng.randrange(1, 6), rng.choice(" -.")) for _ in range(4000))
            text = text[:at] + between.join(numbers)
    return repeated(text or token)


@dataclass(frozen=True, slots=True, order=True)
class Found:
    ms: float
    name: str
    text: str = field(repr=False)


def worst(scan: Callable[[str], object], fuzz_s: float, seed: int) -> list[Found]:
    """Sorted, the worst first."""
    scan("warm up")
    once = sorted((Found(cost_ms(scan, t, 1), n, t) for n, t in texts().items()), reverse=True)
    again = [Found(cost_ms(scan, one.text), one.name, one.text) for one in once[:_KEPT]]
    found = sorted(again, reverse=True)
    rng = random.Random(seed)
    tried, ends_s = 0, time.process_time() + fuzz_s
    while time.process_time() < ends_s:
        best = found[:_KEPT]
        tried += 1
        of = best[min(rng.randrange(_KEPT), rng.randrange(_KEPT))]
        text = mutated(of.text, rng, [one.text for one in best])
        if cost_ms(scan, text, 1) > best[-1].ms:
            found.append(Found(cost_ms(scan, text), f"{of.name.split(',')[0]}, {tried}", text))
            found.sort(reverse=True)
    return found


def scanner() -> FirstVerdict:
    settings = ClassifySettings()
    built = FirstVerdict(settings, Profile.from_settings(settings).types)
    built.wait()
    return built


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzz", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = worst(scanner().scan, given.fuzz, given.seed)
    if given.save is not None:
        given.save.write_text(found[0].text)
    if given.json:
        print(json.dumps([{"text": one.name, "ms": round(one.ms, 1)} for one in found]))
    else:
        for one in found[:20]:
            print(f"{one.ms:10.1f} ms  {one.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
