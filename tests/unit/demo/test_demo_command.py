"""What `spillway demo` says before it starts, and how it shows what happens."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from gateway.__main__ import main
from gateway.cli import demo
from gateway.demo import gateway_process
from gateway.demo.plan import PHASES
from gateway.demo.proof import weigh
from gateway.demo.report import document, report
from gateway.demo.run import RunProgress, use_no_proxy_on_this_machine
from gateway.demo.screen import screen
from gateway.demo.summary import Ended, summarise
from tests.unit.demo.demo_calls import kept, refused, spilled

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")


@contextmanager
def taken() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_a_port_that_was_asked_for_and_is_taken_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with taken() as port:
        code = main(["demo", "--once", "--dir", str(tmp_path), "--grpc-port", str(port)])
    assert code == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"--grpc-port: port {port} is in use; name another, or leave it out" in told


def test_a_port_out_of_range_is_refused(tmp_path: Path) -> None:
    assert main(["demo", "--once", "--dir", str(tmp_path), "--http-port", "65536"]) == 2


def test_a_default_port_that_is_taken_gives_way_to_a_free_one() -> None:
    with taken() as port:
        assert demo.port("--http-port", None, port) == 0
    assert demo.port("--http-port", None, port) == port


def test_models_that_are_not_built_are_told_with_the_command_that_builds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--once"]) == 1
    told = capsys.readouterr().err
    assert "run `make models`" in " ".join(told.split())


def test_two_demos_do_not_share_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with demo.own(tmp_path):
        assert main(["demo", "--once", "--dir", str(tmp_path)]) == 1
    assert "another demo runs in" in capsys.readouterr().err


def test_a_run_starts_without_what_an_earlier_one_left(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    for name in ("audit/lock", "gateway.log", "cloud-bytes.jsonl", "notes.txt"):
        (tmp_path / name).write_text("old")
    with demo.own(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {"lock", "notes.txt"}


def test_a_directory_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", "--once", "--dir", str(tmp_path / "file" / "deep")]) == 1
    assert "cannot be written: Not a directory" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_length_that_makes_no_sense_is_refused(seconds: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", f"--seconds={seconds}"])
    assert ended.value.code == 2


def test_clients_are_told_to_use_no_proxy_for_this_machine() -> None:
    environment = {"no_proxy": "bank.example", "HTTP_PROXY": "http://proxy.example:3128"}
    use_no_proxy_on_this_machine(environment)
    assert environment["no_proxy"] == "bank.example,127.0.0.1,localhost"
    assert environment["NO_PROXY"] == "127.0.0.1,localhost"


def view(elapsed_s: float) -> RunProgress:
    return RunProgress(
        phase=PHASES[1],
        elapsed_s=elapsed_s,
        total_s=36.0,
        ended=[kept(), spilled(), refused()],
        waiting={"restricted": 2, "clear": 1},
        onprem_up=False,
        queued=3,
    )


def shown(*, terminal: bool, quiet: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, highlight=False)
    with screen(console, quiet=quiet) as watched:
        watched.step("starting Triton")
        watched.phase(PHASES[1])
        for elapsed_s in (1.0, 4.0, 4.2, 4.4):
            watched.show(view(elapsed_s))
    return out.getvalue()


def test_a_file_gets_plain_lines_and_not_too_many() -> None:
    assert shown(terminal=False).splitlines() == [
        "starting Triton",
        "burst: more than on-prem can take",
        "    4 s: on-prem 1, cloud (simulated) 1, not answered 1, waiting 3; on-prem Triton: DOWN",
    ]


def test_a_terminal_gets_a_live_table() -> None:
    told = shown(terminal=True)
    assert "\x1b[" in told
    for part in ("4 of 36 s", "cloud (simulated)", "on-prem Triton: DOWN", "spill_queue, 200 ms"):
        assert part in told


def test_quiet_is_silent() -> None:
    assert shown(terminal=False, quiet=True) == ""


def printed(ended: list[Ended], found: set[str]) -> str:
    out = io.StringIO()
    console = Console(file=out, width=120, highlight=False)
    for part in report(summarise(ended), weigh(ended, found, 1000)):
        console.print(part)
    return out.getvalue()


def test_the_report_says_where_and_why_and_that_nothing_restricted_left() -> None:
    told = printed([kept(), spilled(marker="tide"), refused()], {"tide"})
    for part in (
        "3 calls, 2 of them with restricted data: 1 answered on-prem, 1 in the cloud, 1 not",
        "The cloud is simulated",
        "Why (1 spilled to the cloud)",
        "restricted data may not leave",
        "clear; the on-prem queue was full",
        "503, retry later: never to the cloud",
        "restricted calls in the cloud: 0",
        "of the 1 clear calls that the cloud answered, the same search finds 1",
    ):
        assert part in told
    assert "does not hold" not in told


def test_the_report_of_a_leak_does_not_claim_that_all_is_well() -> None:
    told = printed([kept(marker="alma")], {"alma"})
    assert "restricted calls in the cloud: 1" in told
    assert "The promise does not hold in this run" in told


def test_the_document_counts_leaks() -> None:
    calls = [kept(marker="alma")]
    told = document(summarise(calls), weigh(calls, {"alma"}, 1000))
    assert told["restricted_in_cloud"] == 1
    assert told["proof"]["holds"] is False


def test_the_step_of_a_start_is_read_from_the_gateways_log(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    log.write_text(
        '{"message": "starting Triton over models"}\n'
        '{"message": "starting the classifier"}\n'
        '{"message": "development mode"}\n["starting a list"]\nno JSON\n{"message": "starting ha'
    )
    assert gateway_process._last_step(log) == "starting the classifier"
