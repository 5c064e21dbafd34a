"""The gateway in front of Triton: one caller, a crowd of callers, and the crowd at the gateway."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import uvloop

from gateway.endpoints.triton import TritonNotInstalled, TritonServerError
from gateway.endpoints.triton.installation import Installation
from loadtests.gpu import Row

CALLERS = 32
_WORDS = 12  # of a text
_UNBATCHED = re.compile(r'one call at a time goes to (\w+), .* its rows are ([^"]*)"')


def rows(rounds: int, seconds: float) -> Iterator[Row]:
    try:
        Installation.find()
        from loadtests.models import batching  # needs all that the gateway needs
    except (TritonNotInstalled, ImportError) as exc:
        yield Row("gateway", "all", note=f"absent: {exc}")
        return
    asked = argparse.Namespace(
        only=[*batching.BATCHED], words=[_WORDS], rounds=rounds, seconds=seconds,
        callers=CALLERS, gateway=True, apart=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "gateway.log")
        try:
            measured = uvloop.run(batching.measure(asked, Path(scratch)))
        except (TritonServerError, SystemExit) as exc:
            yield Row("gateway", "all", note=f"absent: {exc}")
            return
        unbatched = dict(_UNBATCHED.findall(log.read_text()))
    for figures in (one.figures() for one in measured):
        on = figures["provider"] or "it does not say on what"
        for way, rate, batch in (
            ("Triton, 1 caller", "alone_per_s", None),
            (f"Triton, {CALLERS} callers", "crowd_per_s", "batch"),
            (f"gateway, {CALLERS} callers", "gateway_per_s", "gateway_batch"),
        ):
            note = f"{on}, mean batch {figures[batch]}" if batch else on
            model = figures["case"].partition(",")[0]
            if batch == "gateway_batch" and model in unbatched:
                note += f"; one call at a time: {unbatched[model]}"
            yield Row("gateway", figures["case"], way=way, rows_per_s=figures[rate], note=note)
