"""The thread that reads names: whatever it meets, an answer in time or a NoScan (C1, C9, C12)."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import shutil
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import uvloop

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.names import local
from gateway.classify.names.local import LocalNames, Reader, ReaderThread, UnmeasuredLanguage
from gateway.classify.names.tagger import Tagger
from gateway.types import Finding

from .knowing import Knows, Logits, Rows, nothing, plain_features, tagger_that_knows

MARKER = "MARKER-51c9-SECRET"
THRESHOLDS = {"full": 0.5, "lone": 0.5, "address": 0.5}
GoOn = Callable[[], None]
Found = list[list[Finding] | UnmeasuredLanguage]
FAR_S = 20.0


class Gate:
    """A reader whose next text waits until the test lets it go; it says what it has read."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.read: list[list[str]] = []

    def __call__(self, texts: Sequence[str], go_on: GoOn) -> Found:
        self.read.append(list(texts))
        self.entered.set()
        assert self.open.wait(FAR_S)
        go_on()
        return [[Finding("PERSON", 0, len(text), 0.9)] for text in texts]


def knowing(texts: Sequence[str], go_on: GoOn) -> Found:
    return Reader(tagger_that_knows({"Zara": "PERSON"}), None, THRESHOLDS).read(texts, go_on)


def scenario(
    read: local.Read, play: Callable[[ReaderThread], asyncio.Future[object] | object], most: int = 8
) -> object:
    async def run() -> object:
        thread = ReaderThread(read, most)
        try:
            return await play(thread)  # type: ignore[misc]
        finally:
            await asyncio.to_thread(thread.end)

    return asyncio.run(run())


async def outcome(thread: ReaderThread, text: str = "Zara", budget_s: float = FAR_S) -> str:
    try:
        (found,) = await thread.find([text], budget_s)
    except NoScan as failure:
        return failure.reason
    return "found" if found else "nothing"


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, FAR_S)


def test_names_are_found_at_their_offsets() -> None:
    async def play(thread: ReaderThread) -> object:
        return await thread.find(["call Dr. Zara now", "nobody", ""], FAR_S)

    assert scenario(knowing, play) == [[Finding("PERSON", 9, 13, 0.9999)], [], []]


def test_calls_that_come_together_get_their_own_answers() -> None:
    texts = ["x " * n + "Zara" for n in range(200)]

    async def play(thread: ReaderThread) -> object:
        found = await asyncio.gather(*(thread.find([text, "no"], FAR_S) for text in texts))
        return [[f.start for f in first] for first, _ in found]

    assert scenario(knowing, play, most=1_000) == [[2 * n] for n in range(200)]


def test_calls_that_wait_together_are_read_together() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        waiting = [asyncio.create_task(outcome(thread, f"{n}")) for n in range(5)]
        await asyncio.sleep(0)
        gate.open.set()
        return await asyncio.gather(first, *waiting)

    assert scenario(gate, play) == ["found"] * 6
    assert gate.read == [["first"], ["0", "1", "2", "3", "4"]]


def test_a_long_text_lets_short_ones_go_between() -> None:
    order: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        order.append(texts[0][:5])
        if texts[0].startswith("long"):
            begun.set()
            assert go.wait(FAR_S)
            go_on()
            order.append("rest")
        return [[] for _ in texts]

    async def play(thread: ReaderThread) -> object:
        long = asyncio.create_task(outcome(thread, "long " * 3_000))
        await reached(begun)
        short = asyncio.create_task(outcome(thread, "short"))
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(long, short)

    assert scenario(read, play) == ["nothing", "nothing"]
    assert order == ["long ", "short", "rest"]


def test_short_texts_without_end_do_not_keep_a_long_one_from_being_read() -> None:
    begun: list[str] = []

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        begun.append(texts[0][:5])
        return [[] for _ in texts]

    async def play(thread: ReaderThread) -> object:
        shorts = [asyncio.create_task(outcome(thread, "s" * 5_900)) for _ in range(40)]
        long = asyncio.create_task(outcome(thread, "long " * 3_000))
        await long
        return await asyncio.gather(*shorts)

    scenario(read, play, most=100)
    assert begun.index("long ") < 10


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan")])
def test_without_time_there_is_no_scan(budget_s: float) -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        gate.open.set()
        return [await outcome(thread, "first", budget_s), await outcome(thread, "second")]

    assert scenario(gate, play) == ["late", "found"]
    assert gate.read == [["second"]]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_any_budget_is_a_budget(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def play() -> str:
        thread = ReaderThread(knowing, 8)
        try:
            return await outcome(thread, budget_s=float("inf"))
        finally:
            await asyncio.to_thread(thread.end)

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(play()) == "found"


def test_nobody_waits_longer_than_any_scan_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_BUDGET_S", 0.05)
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        try:
            async with asyncio.timeout(FAR_S / 2):
                return await outcome(thread, budget_s=1e9)
        finally:
            gate.open.set()

    assert scenario(gate, play) == "late"


def test_a_model_that_hangs_makes_calls_late_and_then_busy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "END_S", 0.05)
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, budget_s=0.05))
        await reached(gate.entered)
        waiting = [asyncio.create_task(outcome(thread, budget_s=0.05)) for _ in range(3)]
        return [await first, await asyncio.gather(*waiting), await outcome(thread)]

    try:
        assert scenario(gate, play, most=3) == ["late", ["late"] * 3, "busy"]
        assert "hangs" in caplog.text
    finally:
        gate.open.set()


def test_calls_whose_callers_left_count_until_it_is_their_turn() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        left = [asyncio.create_task(outcome(thread, "left")) for _ in range(4)]
        await asyncio.sleep(0)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        busy = await outcome(thread)
        gate.open.set()
        return [busy, await first, await outcome(thread, "last")]

    assert scenario(gate, play, most=4) == ["busy", "found", "found"]
    assert gate.read == [["first"], ["last"]]  # and nobody reads what nobody waits for


def test_a_long_text_is_read_no_further_once_its_time_is_over() -> None:
    ended = threading.Event()
    runs: list[int] = []
    gate = threading.Event()

    def model(rows: Rows) -> Logits:
        runs.append(len(rows))
        assert gate.wait(FAR_S)
        return nothing(rows)

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        try:
            return Reader(Tagger(plain_features(), model), None, THRESHOLDS).read(texts, go_on)
        finally:
            ended.set()

    async def play(thread: ReaderThread) -> object:
        late = await outcome(thread, "word " * 50_000, 0.3)
        gate.set()
        await reached(ended)
        return late

    assert scenario(read, play) == "late"
    assert len(runs) <= 1


def raises(exc: BaseException) -> local.Read:
    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        if texts[0].startswith("Zara"):
            return [[Finding("PERSON", 0, 4, 0.9)]]
        raise exc

    return read


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (raises(ValueError(MARKER)), "failed"),
        (raises(MemoryError(MARKER)), "failed"),
        (raises(SystemExit(MARKER)), "failed"),
        (raises(KeyboardInterrupt()), "failed"),
        (raises(ScanLate(MARKER)), "late"),
        (raises(UnmeasuredLanguage(MARKER)), "unmeasured_language"),
        (lambda texts, go_on: [[]] if texts[0].startswith("Zara") else [], "failed"),
        (lambda texts, go_on: [[]] if texts[0].startswith("Zara") else None, "failed"),
        (lambda texts, go_on: [UnmeasuredLanguage()], "unmeasured_language"),
    ],
)
def test_a_reader_that_fails_is_no_scan_and_the_next_call_is_read(
    read: local.Read, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[BaseException] = []

    async def play(thread: ReaderThread) -> object:
        try:
            await thread.find([f"my {MARKER}"], FAR_S)
        except NoScan as failure:
            seen.append(failure)
        return await outcome(thread, "Zara")

    after = scenario(read, play)
    assert after in ("found", "nothing", reason)
    (failure,) = seen
    assert isinstance(failure, NoScan)
    assert failure.reason == reason
    assert failure.__cause__ is None
    assert MARKER not in "".join(traceback.format_exception(failure)) + caplog.text


@pytest.mark.parametrize(
    "model",
    [
        lambda rows: nothing(rows) * float("nan"),
        lambda rows: nothing(rows)[:, :1],
        lambda rows: nothing(rows)[0],
    ],
)
def test_a_model_that_answers_nonsense_never_looks_like_a_text_without_names(
    model: Callable[[Rows], Logits],
) -> None:
    reader = Reader(Tagger(plain_features(), model), None, THRESHOLDS)

    async def play(thread: ReaderThread) -> object:
        return await outcome(thread)

    assert scenario(reader.read, play) == "failed"


def test_one_call_that_cannot_be_read_leaves_its_neighbours_alone() -> None:
    gate = Gate()

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        gate(texts, go_on)
        return [UnmeasuredLanguage() if text == "jag" else [] for text in texts]

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        others = [asyncio.create_task(outcome(thread, text)) for text in ("a", "jag", "b")]
        await asyncio.sleep(0)
        gate.open.set()
        return [await first, *await asyncio.gather(*others)]

    assert scenario(read, play) == ["nothing", "nothing", "unmeasured_language", "nothing"]


def test_an_end_refuses_those_that_wait_and_those_that_come() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        running = asyncio.create_task(outcome(thread, "running"))
        await reached(gate.entered)
        waiting = [asyncio.create_task(outcome(thread, "waits " * 2_000)) for _ in range(2)]
        waiting += [asyncio.create_task(outcome(thread, "waits"))]
        await asyncio.sleep(0)
        end = asyncio.create_task(asyncio.to_thread(thread.end))
        await reached(thread._ended)
        gate.open.set()
        await end
        return [await running, *await asyncio.gather(*waiting), await outcome(thread)]

    assert scenario(gate, play) == ["failed"] * 5


def test_a_thread_that_dies_refuses_at_once_and_says_so_without_a_word_of_the_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    died: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: died.append(str(args.exc_value)))

    def broken(thread: ReaderThread) -> None:
        raise RuntimeError("in the thread itself")

    monkeypatch.setattr(ReaderThread, "_read_short", broken)

    async def play(thread: ReaderThread) -> object:
        first = asyncio.gather(*(outcome(thread, MARKER) for _ in range(3)))
        return [await first, await outcome(thread)]

    assert scenario(knowing, play) == [["failed"] * 3, "failed"]
    assert died == ["in the thread itself"]
    assert "has died" in caplog.text
    assert MARKER not in caplog.text


def test_a_caller_that_leaves_as_the_answer_comes_leaves_no_complaint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complaints: list[object] = []
    callers: list[asyncio.Task[object]] = []

    tell = local._Job._tell

    def tell_and_leave(job: local._Job, answer: local.Answer | NoScan) -> None:
        tell(job, answer)
        callers[0].cancel()  # the answer is there, and nobody comes to look at it

    monkeypatch.setattr(local._Job, "_tell", tell_and_leave)

    async def play(thread: ReaderThread) -> object:
        asyncio.get_running_loop().set_exception_handler(lambda _, c: complaints.append(c))
        callers.append(asyncio.create_task(thread.find(["x"], FAR_S)))
        (left,) = await asyncio.gather(*callers, return_exceptions=True)
        callers.clear()
        gc.collect()
        return type(left)

    assert scenario(raises(ValueError(MARKER)), play) is asyncio.CancelledError
    gc.collect()
    assert complaints == []


def test_what_is_read_in_one_go_is_bounded() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        many = [asyncio.create_task(outcome(thread, "few")) for _ in range(100)]
        much = [asyncio.create_task(outcome(thread, "x" * 4_000)) for _ in range(5)]
        await asyncio.sleep(0)
        gate.open.set()
        return await asyncio.gather(first, *many, *much)

    assert scenario(gate, play, most=200) == ["found"] * 106
    assert max(map(len, gate.read)) <= local._TOGETHER
    assert max(sum(map(len, texts)) for texts in gate.read) <= 2 * local._LONG


def test_a_reader_asks_before_each_text_whether_to_go_on() -> None:
    asked: list[None] = []
    reader = Reader(tagger_that_knows({}), None, THRESHOLDS)
    reader.read(["few words"] * 10, lambda: asked.append(None))
    assert len(asked) >= 10


def test_a_job_does_not_say_what_it_holds() -> None:
    async def play() -> str:
        job = local._Job([MARKER], 0.0, asyncio.get_running_loop().create_future(), 1)
        return repr(job)

    assert MARKER not in asyncio.run(play())


def test_an_answer_for_a_loop_that_has_ended_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    job = local._Job(["x"], 0.0, loop.create_future(), 1)
    loop.close()
    job.tell(ScanFailed())
    job.tell([[]])


# LocalNames: the thread with the weights


def broken_weights(folder: Path, name: str, content: bytes | None) -> Path:
    """Files of which none is fit; one of them in a certain way."""
    card = {"version": "0", "languages": ["en"], "thresholds": THRESHOLDS}
    files: dict[str, bytes | None] = {
        "card.json": json.dumps(card).encode(),
        "pieces.txt": b"[PAD]\n[UNK]",
        "lexicon.npz": b"PK",
        "languages.npz": b"",
        "first.onnx": b"\x00",
        name: content,
    }
    for file, data in files.items():
        if data is not None:
            (folder / file).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("card.json", None), ("card.json", b""), ("card.json", b"[]"), ("card.json", b"{}"),
        ("card.json", b'{"languages": 3}'), ("pieces.txt", None), ("pieces.txt", b"\xff\xfe"),
        ("lexicon.npz", None), ("lexicon.npz", b""), ("lexicon.npz", b"PK\x03\x04"),
        ("languages.npz", b"nonsense"), ("first.onnx", b"nonsense"),
    ],
)  # fmt: skip
def test_weights_that_cannot_be_read_stop_the_start(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    names = LocalNames(["en"], weights=broken_weights(tmp_path, name, content))
    with pytest.raises(ScannerUnfit) as failure:
        asyncio.run(names.start())
    assert failure.value.__cause__ is None


def test_a_model_that_misses_its_samples_is_unfit() -> None:
    def missed(known: dict[str, str], *languages: str) -> list[str]:
        return Reader(tagger_that_knows(known), None, THRESHOLDS).missed(languages)

    assert missed({}, "en") == ["PERSON (en)", "STREET_ADDRESS (en)"]
    assert missed({"Margaret": "PERSON"}, "en")[0] == "PERSON (en)"  # a lone name is too little
    assert missed({"Katharina": "PERSON", "17": "STREET_ADDRESS"}, "de") == []
    assert missed({"summary": "PERSON"}) == ["PERSON (false alarm)"]


def test_a_language_without_samples_is_unfit() -> None:
    reader = Reader(Tagger(plain_features(), Knows({})), None, THRESHOLDS)
    assert reader.missed(["sv"]) == [
        "PERSON (sv: there is no sample)",
        "STREET_ADDRESS (sv: there is no sample)",
    ]


def test_before_the_start_there_is_no_scan() -> None:
    async def play() -> None:
        names = LocalNames(["en"])
        await names.aclose()
        await names.find(["Anna Schmidt"], 1.0)

    with pytest.raises(ScanFailed):
        asyncio.run(play())


def test_too_many_calls_are_busy() -> None:
    async def play(thread: ReaderThread) -> object:
        return await outcome(thread)

    assert scenario(knowing, play, most=0) == ScannersBusy.reason


@pytest.fixture
def unsure(tmp_path: Path, weights: Path) -> Path:
    """The weights, but sure of nothing."""
    shutil.copytree(weights, tmp_path / "weights")
    card = json.loads((weights / "card.json").read_text())
    card["thresholds"] = dict.fromkeys(THRESHOLDS, 1.1)
    (tmp_path / "weights" / "card.json").write_text(json.dumps(card))
    return tmp_path / "weights"


def test_missed_samples_stop_the_start(unsure: Path) -> None:
    with pytest.raises(ScannerUnfit, match=r"PERSON \(en\)"):
        asyncio.run(LocalNames(["en"], weights=unsure).start())


def test_names_can_be_closed_and_started_again(weights: Path) -> None:
    async def play() -> list[object]:
        names = LocalNames(["en", "de"], weights=weights)
        seen: list[object] = []
        for _ in range(2):
            await names.start()
            await names.start()
            seen.append(bool((await names.find(["Please call Margaret Whitfield."], FAR_S))[0]))
            await names.aclose()
            await names.aclose()
            try:
                await names.find(["Please call Margaret Whitfield."], FAR_S)
            except NoScan as failure:
                seen.append(failure.reason)
        return seen

    before = threading.active_count()
    assert asyncio.run(play()) == [True, "failed"] * 2
    assert threading.active_count() <= before
