"""What a compiled database depends on besides its expressions: the code that wrote it, the
libraries, and the processor that Hyperscan compiled for. A cached one of any other origin is as if
there were none."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import hyperscan
import regex

WRITERS = (
    "gateway.classify.gate.armed",
    "gateway.classify.gate.confirmation",
    "gateway.classify.gate.database",
    "gateway.classify.gate.necessary",
    "gateway.classify.gate.plan",
    "gateway.classify.gate.triggers",
    "gateway.classify.patterns.alphabet",
    "gateway.classify.patterns.automaton",
    "gateway.classify.patterns.finder",
    "gateway.classify.patterns.superset",
    "gateway.classify.patterns.syntax",
)
"""Every module of ours that has a say in what is written into a database or beside it."""
_INSTRUCTIONS = frozenset({"sse4_2", "avx2", "asimd", "sve", "sve2"})
"""And all of AVX-512: what Hyperscan's code depends on. What it tunes for a model of processor
changes its speed alone, so that one image serves all machines of a kind."""


@functools.cache
def origin() -> tuple[str, ...]:
    libraries: tuple[Any, ...] = (hyperscan, regex)  # asking for metadata takes as long as both
    return (*(str(library.__version__) for library in libraries), _code(), _processor())


def _code() -> str:
    digest = hashlib.sha256()
    for name in WRITERS:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        source = origin.with_name(origin.name.partition(".")[0] + ".py")  # also of what is compiled
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    named = {
        word
        for line in lines
        if line.startswith(("flags", "Features"))
        for word in line.partition(":")[2].split()
    }
    return " ".join(
        sorted(word for word in named if word in _INSTRUCTIONS or word.startswith("avx512"))
    )
