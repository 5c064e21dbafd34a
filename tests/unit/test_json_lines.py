"""With `log.format: json` every line that a gateway writes to standard error is JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = """
log: {format: json}
listen: {http_port: 0, grpc_port: 0%(tls)s}
audit: {directory: %(folder)s/audit}
classify: {names: "off"}
endpoints: {gpu: {kind: triton, zone: onprem, url: "http://127.0.0.1:9", grpc: "127.0.0.1:9"}}
models: {m: {tensors: clear, served_by: [{endpoint: gpu}]}}
"""
REFUSED = ", tls: {cert_file: %(folder)s/none.pem, key_file: %(folder)s/none.key}"


def lines_of(program: str, *arguments: str) -> list[dict[str, object]]:
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert lines
    return [json.loads(line) for line in lines]


def test_a_start_that_is_refused_says_so_in_json(tmp_path: Path) -> None:
    file, folder = tmp_path / "spillway.yaml", {"folder": tmp_path}
    file.write_text(SETTINGS % {"tls": REFUSED % folder, **folder})
    program = "import sys; from gateway.__main__ import main; sys.exit(main(sys.argv[1:]))"
    lines = lines_of(program, "serve", "--config", str(file))
    assert lines[-1]["level"] == "error"
    assert "listen.tls" in str(lines[-1]["message"])


@pytest.mark.parametrize("how", ["raise KeyError('of a call')", "warnings.warn('of a call')"])
def test_so_does_a_bug_and_a_warning_of_python(how: str) -> None:
    program = (
        "import warnings; from gateway.core.process import logs; from gateway.cli import console; "
        f"logs.configure('info', 'json'); console.speak_in_log(); {how}"
    )
    (line,) = lines_of(program)
    assert "of a call" not in json.dumps(line)
