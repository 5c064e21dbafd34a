"""Each tutorial is run as a reader runs it: its commands in one shell, in order.

A block of `text` behind commands shows lines of what they print, with `...` for what differs.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.ports import free_port
from tests.live import MODELS, ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
_BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PORTS = ("8080", "8081", "9900", "9901", "9902")


def test_there_is_a_tutorial_for_each_of_three_readers() -> None:
    assert [page.stem for page in TUTORIALS] == ["bank", "hospital", "platform-team"]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    blocks = _BLOCK.findall(page.read_text())
    script = "".join(block for language, block in blocks if language == "bash")
    shown = [line for language, block in blocks if language == "text" for line in block.split("\n")]
    printed = run(script, tmp_path).splitlines()
    assert shown
    at = 0
    for line in filter(None, shown):
        like = re.compile(".*".join(map(re.escape, line.split("..."))))
        matching = (n for n in range(at, len(printed)) if like.fullmatch(printed[n]))
        at = next(matching, -1) + 1
        assert at, f"{line!r} is not printed, or not in this order:\n" + "\n".join(printed)


def run(script: str, folder: Path) -> str:
    """What it prints, on free ports, where `spillway` and `python` are those of an installation."""
    commands = folder / "bin"
    commands.mkdir()
    for name, arguments in (("spillway", "-m gateway"), ("python", "")):
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (commands / name).chmod(0o755)
    (folder / "models").mkdir()
    for model in ("fraud_score", "minilm", "scribe"):  # Triton starts the sooner
        (folder / "models" / model).symlink_to(MODELS / model)
    for port in _PORTS:
        script = re.sub(rf"\b{port}\b", str(free_port()), script)
    script = script.replace("do sleep 0.2; done", "do sleep 1; done")  # a start of Python each
    ours = re.search(r"http_port: (\d+)", script)
    assert ours
    script = script.replace(
        "spillway healthcheck", f"spillway healthcheck --url http://127.0.0.1:{ours[1]}"
    )
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    environment["PATH"] = f"{commands}:{environment['PATH']}"
    with (folder / "printed").open("w+") as out:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        try:
            shell.wait(300)
        finally:
            if shell.poll() != 0:
                os.killpg(shell.pid, signal.SIGKILL)  # it and what it has started
        out.seek(0)
        printed = out.read()
    assert shell.returncode == 0, printed
    return printed
