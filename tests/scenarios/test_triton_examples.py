"""Triton's own client examples, unmodified, as programs against the gateway.

They are not ours to ship. `SPILLWAY_TRITON_EXAMPLES` names a folder that has them: `src/python/
examples` of github.com/triton-inference-server/client.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.both_ways import BothWays

FOLDER = Path(os.environ.get("SPILLWAY_TRITON_EXAMPLES", ""))
PATIENCE_S = 60

pytestmark = pytest.mark.skipif(
    "SPILLWAY_TRITON_EXAMPLES" not in os.environ,
    reason="SPILLWAY_TRITON_EXAMPLES names no folder with Triton's client examples",
)

BOTH_CODINGS = [
    ("--request-compression-algorithm", coding, "--response-compression-algorithm", coding)
    for coding in ("gzip", "deflate")
]
PASS: list[tuple[str, tuple[str, ...]]] = [
    ("grpc_explicit_byte_content_client", ()),
    ("grpc_explicit_int8_content_client", ()),
    ("grpc_explicit_int_content_client", ()),
    ("simple_grpc_aio_infer_client", ()),
    ("simple_grpc_aio_sequence_stream_infer_client", ()),
    ("simple_grpc_aio_sequence_stream_infer_client", ("-d",)),
    ("simple_grpc_async_infer_client", ()),
    ("simple_grpc_custom_args_client", ()),
    ("simple_grpc_custom_repeat", ()),
    ("simple_grpc_health_metadata", ()),
    ("simple_grpc_infer_client", ()),
    ("simple_grpc_infer_client", ("-C", "gzip")),
    ("simple_grpc_infer_client", ("-C", "deflate")),
    ("simple_grpc_infer_client", ("-t", "10")),
    ("simple_grpc_keepalive_client", ()),
    ("simple_grpc_sequence_stream_infer_client", ()),
    ("simple_grpc_sequence_stream_infer_client", ("-d",)),
    ("simple_grpc_sequence_sync_infer_client", ()),
    ("simple_grpc_sequence_sync_infer_client", ("-d",)),
    ("simple_grpc_string_infer_client", ()),
    ("simple_http_aio_infer_client", ()),
    *(("simple_http_aio_infer_client", codings) for codings in BOTH_CODINGS),
    ("simple_http_async_infer_client", ()),
    ("simple_http_health_metadata", ()),
    ("simple_http_infer_client", ()),
    *(("simple_http_infer_client", codings) for codings in BOTH_CODINGS),
    ("simple_http_infer_client", ("-H", "x-request-source:tests")),
    ("simple_http_sequence_sync_infer_client", ()),
    ("simple_http_sequence_sync_infer_client", ("-d",)),
    ("simple_http_string_infer_client", ()),
]
REFUSED: list[tuple[str, tuple[str, ...]]] = [
    ("reuse_infer_objects_client", ("-i", "grpc")),
    ("reuse_infer_objects_client", ("-i", "http")),
    ("simple_grpc_shm_client", ()),
    ("simple_grpc_shm_string_client", ()),
    ("simple_http_shm_client", ()),
    ("simple_http_shm_string_client", ()),
]
NOT_RUN = {
    "simple_grpc_cudashm_client": "needs a GPU",
    "simple_http_cudashm_client": "needs a GPU",
    "simple_grpc_model_control": "needs a server with a repository of its own, in explicit mode",
    "simple_http_model_control": "needs a server with a repository of its own, in explicit mode",
}


def run(
    ways: BothWays, script: str, arguments: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    over_http = "_http_" in script or "http" in arguments
    address = ways.through.http_url.removeprefix("http://")
    return subprocess.run(
        [
            sys.executable,
            str(FOLDER / f"{script}.py"),
            "-u",
            address if over_http else ways.through.grpc_target,
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(("script", "arguments"), PASS, ids=lambda value: str(value))
def test_an_example_passes(ways: BothWays, script: str, arguments: tuple[str, ...]) -> None:
    done = run(ways, script, arguments)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("script", "arguments"), REFUSED, ids=lambda value: str(value))
def test_an_example_with_shared_memory_is_refused_in_clear_words(
    ways: BothWays, script: str, arguments: tuple[str, ...]
) -> None:
    done = run(ways, script, arguments)
    assert done.returncode != 0
    assert "not offered by this gateway" in done.stdout + done.stderr


def test_no_example_of_a_simple_model_is_forgotten() -> None:
    known = {script for script, _ in (*PASS, *REFUSED)} | NOT_RUN.keys()
    assert {path.stem for path in FOLDER.glob("simple_*.py")} <= known
