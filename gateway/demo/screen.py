"""What a person sees while the demo runs: a table that lives, or plain lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gateway.demo.plan import Phase
from gateway.demo.run import RunProgress, Screen
from gateway.demo.summary import CLEAR, CLOUD, NONE, ONPREM, RESTRICTED, Ended
from gateway.demo.words import ZONES

_LINE_EVERY_S = 3.0
_RECENT = 4
_STYLES = {ONPREM: "green", CLOUD: "cyan", NONE: "yellow"}


@contextmanager
def screen(console: Console, *, quiet: bool) -> Iterator[Screen]:
    if quiet:
        yield SilentScreen()
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=8, transient=True) as live:
            yield TerminalScreen(live)
    else:
        yield LineScreen(console)


class SilentScreen:
    def step(self, text: str) -> None: ...
    def phase(self, phase: Phase) -> None: ...
    def show(self, view: RunProgress) -> None: ...


class LineScreen:
    """For files and pipes: one line for every step, and one for every few seconds of calls."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed_s = 0.0

    def step(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def phase(self, phase: Phase) -> None:
        self.step(f"{phase.name}: {phase.says}")

    def show(self, view: RunProgress) -> None:
        if view.elapsed_s - self._printed_s < _LINE_EVERY_S:
            return
        self._printed_s = view.elapsed_s
        zones = Counter(ended.zone for ended in view.ended)
        shares = ", ".join(f"{ZONES[zone]} {zones[zone]}" for zone in ZONES)
        waiting = sum(view.waiting.values())
        self.step(f"  {view.elapsed_s:3.0f} s: {shares}, waiting {waiting}; {_triton(view)}")


class TerminalScreen:
    def __init__(self, live: Live) -> None:
        self._live = live

    def step(self, text: str) -> None:
        self._live.update(Spinner("dots", Text(text)))

    def phase(self, phase: Phase) -> None:
        """Stays above the table when the next one comes."""
        self._live.console.print(f"[bold]{phase.name}[/]: {phase.says}")

    def show(self, view: RunProgress) -> None:
        self._live.update(Group(_heading(view), _counts(view), _state(view), *_recent(view)))


def _heading(view: RunProgress) -> Text:
    seconds = f"{min(view.elapsed_s, view.total_s):.0f} of {view.total_s:.0f} s"
    return Text.assemble(("Spillway demo", "bold"), f"  {seconds}  ", (view.phase.name, "bold"))


def _counts(view: RunProgress) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("calls")
    for zone, name in ZONES.items():
        table.add_column(name, justify="right", style=_STYLES[zone])
    table.add_column("waiting", justify="right")
    counted = Counter((ended.sensitivity, ended.zone) for ended in view.ended)
    for sensitivity in (RESTRICTED, CLEAR):
        cells = [str(counted[sensitivity, zone]) for zone in ZONES]
        table.add_row(sensitivity, *cells, str(view.waiting[sensitivity]))
    return table


def _state(view: RunProgress) -> Text:
    return Text(f"{_triton(view)}; {view.queued} in the gateway's queue")


def _triton(view: RunProgress) -> str:
    words = {True: "up", False: "DOWN", None: "no news"}
    return f"on-prem Triton: {words[view.onprem_up]}"


def _recent(view: RunProgress) -> Iterator[Text]:
    for ended in view.ended[-_RECENT:]:
        yield _one(ended)


def _one(ended: Ended) -> Text:
    call = ended.call
    return Text.assemble(
        f"  {ended.sensitivity:10}  {call.method.value:28} {call.model:16} ",
        (f"{ZONES[ended.zone]}", _STYLES[ended.zone]),
        f"  {ended.reason}, {ended.observed.took_s * 1000:.0f} ms",
        no_wrap=True,
        overflow="ellipsis",
    )
