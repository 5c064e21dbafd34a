"""`spillway classify` as a process, from the line in to the line out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "gateway", "classify")


def classify(*args: str, stdin: str = "") -> tuple[int, list[dict[str, Any]], str]:
    result = subprocess.run(
        [*COMMAND, *args],
        input=stdin.encode(),
        capture_output=True,
        check=False,
    )
    lines = [json.loads(line) for line in result.stdout.decode().splitlines()]
    return result.returncode, lines, result.stderr.decode()


def test_verdicts_come_in_order_with_offsets_in_characters(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    texts = ["héllo 536-90-4399", *("nothing here " * (1 + 40 * (i % 2)) for i in range(20))]
    path.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)))
    status, lines, errors = classify("--jsonl", str(path), "--json")
    assert status == 0
    assert [line["id"] for line in lines] == list(range(21))
    first = lines[0]
    assert first["sensitivity"] == "restricted"
    assert {"start": 6, "end": 17, "type": "US_SSN"}.items() <= first["findings"][0].items()
    assert first["ms"] >= 0
    assert {line["sensitivity"] for line in lines[1:]} == {"clear"}
    assert json.loads(errors) == {"clear": 20, "restricted": 1, "bad_lines": 0}


def test_bad_lines_are_named_and_the_others_processed() -> None:
    """Findings that do not restrict are reported, and why a text over the cap restricts."""
    link, long = {"id": 4, "text": "see https://example.com/"}, {"id": 5, "text": "w " * 750_000}
    lines = ['{"id": 1, "text": "hi"}', "nonsense", '{"id": 2}', "", *map(json.dumps, (link, long))]
    status, found, errors = classify("--jsonl", "-", stdin="\n".join(lines))
    assert status == 2
    assert [line["id"] for line in found] == [1, 4, 5]
    assert "line 2: " in errors
    assert "line 3: " in errors
    assert "nonsense" not in errors
    _, linked, over = found
    assert linked["sensitivity"] == "clear"
    assert "URL" in {f["type"] for f in linked["findings"]}
    assert (over["sensitivity"], over["reason"]) == ("restricted", "over_cap")


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    status, lines, errors = classify("--jsonl", str(tmp_path / "none.jsonl"))
    assert (status, lines) == (2, [])
    assert errors == f"spillway classify: {tmp_path}/none.jsonl: No such file or directory\n"


def test_a_program_can_send_a_line_and_wait_for_its_verdict() -> None:
    with subprocess.Popen(
        [*COMMAND, "--jsonl", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(json.dumps({"id": number, "text": "hi"}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": 1, "text": "hi"}\n' * 3000)
    with subprocess.Popen(
        [*COMMAND, "--jsonl", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 141


def test_the_settings_of_a_gateway_can_be_used(tmp_path: Path) -> None:
    config = tmp_path / "spillway.yaml"
    config.write_text(
        "classify: {deny_list: [Project Falcon]}\n"
        "endpoints: {a: {kind: triton, zone: onprem, grpc: 'localhost:1'}}\n"
        "models: {m: {served_by: [{endpoint: a}]}}\n"
    )
    line = json.dumps({"id": 1, "text": "about Project Falcon"})
    _, (found,), _ = classify("--jsonl", "-", "--config", str(config), stdin=line)
    assert [f["type"] for f in found["findings"]] == ["DENY_LIST"]
