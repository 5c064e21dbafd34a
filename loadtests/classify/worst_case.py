"""The texts that keep a scan worker busy longest: `python -m loadtests.classify.worst_case`.

64 KB each, of seeds that were found by hand and by trying: one seed repeated, or two in turn, some
of it encoded. `--rounds N` mutates the worst ones N times and keeps what is worse. Processor time,
so that a busy machine does not count.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import random
import sys
import time
from collections.abc import Callable

from gateway.classify import TooMany
from gateway.classify.profile import Profile
from gateway.classify.recognizers import FirstVerdict
from gateway.config import ClassifySettings

SIZE = 65_000
SEEDS = (
    *(
        "a.",
        "a@",
        "a@a.",
        "1 ",
        "12-",
        "1.",
        "1,2 ",
        "0 1 ",
        "1234 ",
        "12.34.",
        "99-99-",
        "::",
        "a:",
    ),
    *(
        "A1 ",
        "x1 lic ",
        "MRN ",
        "passport ",
        "one ",
        "five six ",
        "zero,",
        "[at]",
        " at a dot ",
        "a at b. ",
    ),
    *(
        "-----",
        "=3D",
        "%41",
        "&amp;",
        "&#65;",
        "\\u0041",
        "**a",
        "<b>",
        "__",
        "\u200b",
        "\uff11",
        "\u0430a",
    ),
    *(
        "4F 6B ",
        "65, ",
        "QUJD",
        "aGVsbG8gd29ybGQgdGhlcmU= ",
        "12 High ",
        "St. ",
        "IBAN DE",
        "DE89 ",
    ),
    *("+1 ", "(0", "tel ", "born ", "password=", "sk-", "eyJ", "https://", "\n", "| 1 ", "a\n"),
)


def texts() -> dict[str, str]:
    found = {repr(seed): (seed * (SIZE // len(seed) + 1))[:SIZE] for seed in SEEDS}
    letters = ("a", "A", "1", "é", "4111 1111 1111 1112 ", "the quick brown fox ")
    found |= {repr(seed): (seed * (SIZE // len(seed) + 1))[:SIZE] for seed in letters}
    found |= {
        repr(seed): (seed * (SIZE // len(seed) + 1))[:SIZE]
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
        found[f"base64, {depth} deep"] = (nested * (SIZE // len(nested) + 1))[:SIZE]
    return found


def cost_ms(scan: Callable[[str], object], text: str) -> float:
    started_s = time.process_time()
    with contextlib.suppress(TooMany):  # a verdict too
        scan(text)
    return (time.process_time() - started_s) * 1e3


def mutated(text: str, rng: random.Random) -> str:
    seed = rng.choice(SEEDS) + rng.choice(SEEDS)
    every = rng.choice((3, 7, 20, 61, 300, 2000))
    parts = [text[at : at + every] for at in range(0, SIZE, every)]
    return seed.join(parts)[:SIZE]


def worst(rounds: int, seed: int) -> list[tuple[float, str]]:
    settings = ClassifySettings()
    scanner = FirstVerdict(settings, Profile.of(settings).types)
    scanner.scan("warm up")
    found = sorted(
        ((cost_ms(scanner.scan, text), name, text) for name, text in texts().items()), reverse=True
    )
    rng = random.Random(seed)
    for at in range(rounds):
        _, name, text = found[rng.randrange(min(8, len(found)))]
        other = mutated(text, rng)
        found.append((cost_ms(scanner.scan, other), f"{name}, mutated {at}", other))
        found.sort(reverse=True)
    return [(round(ms, 1), name) for ms, name, _ in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = worst(given.rounds, given.seed)
    if given.json:
        print(json.dumps([{"text": name, "ms": ms} for ms, name in found]))
    else:
        for ms, name in found[:20]:
            print(f"{ms:10.1f} ms  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
