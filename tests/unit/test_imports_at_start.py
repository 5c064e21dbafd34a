"""What a gateway that is ready has imported, and what its scanner's process has: a start that takes
a second, and memory for each worker, come back one import at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SETTINGS = """
classify: {{profile: patterns}}
endpoints:
  provider: {{kind: openai, zone: cloud, url: "http://127.0.0.1:9/v1"}}
models:
  chat: {{task: generate, served_by: [{{endpoint: provider, model: any}}]}}
audit: {{directory: "{scratch}/audit"}}
ledger: {{path: "{scratch}/ledger.db"}}
log: {{level: error}}
"""
_SERVING = """
import os, signal, sys, threading, time
from types import ModuleType

def tell():
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    # What is put off has a stand-in there, of a class of its own.
    print(*(name for name, module in list(sys.modules.items()) if type(module) is ModuleType))
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=tell, daemon=True).start()
from gateway.__main__ import main
given = ["--config", sys.argv[1], "--ready-file", sys.argv[2]]
sys.exit(main(["serve", "--http-port", "0", "--grpc-port", "0", *given]))
"""
_SCANNING = """
import sys
from types import ModuleType
from gateway.classify.scan_workers import frames, worker
from gateway.core.process.lazy_imports import put_off

put_off(*worker._SELDOM)
with open(sys.argv[1], "rb") as told:
    spec = frames.WorkerSpec.unpack(frames.read(told))
assert worker.missing(worker._build(spec), spec) == []
print(*(name for name, module in list(sys.modules.items()) if type(module) is ModuleType))
"""
_SPEC = """
import sys
from pathlib import Path
from gateway import config
from gateway.classify.scan_workers.spec import worker_spec
Path(sys.argv[2]).write_bytes(worker_spec(config.load(Path(sys.argv[1])).classify).pack())
"""


def _modules(code: str, *arguments: Path) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.split())


def _with_parts(modules: set[str], packages: set[str]) -> set[str]:
    return {m for m in modules for p in packages if m == p or m.startswith(f"{p}.")}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "spillway.yaml"
    path.write_text(_SETTINGS.format(scratch=tmp_path))
    return path


def test_a_gateway_without_models_imports_none_of_what_others_need(
    settings: Path, tmp_path: Path
) -> None:
    there = _modules(_SERVING, settings, tmp_path / "ready.json")
    assert {"gateway.app.gateway", "gateway.classify.gate.gate"} <= there
    unwanted = {
        # libraries
        *("numpy", "onnxruntime", "presidio_analyzer", "presidio_anonymizer", "phonenumbers"),
        *("spacy", "httpx", "requests", "tldextract", "rich", "psycopg", "opentelemetry"),
        *("multiprocessing", "uvicorn", "tritonclient.utils", "prometheus_client.exposition"),
        *("http.server", "urllib.request", "wsgiref"),
        # what only some settings ask for
        *(
            "gateway.classify.names.engines.local",
            "gateway.cluster.node",
            "gateway.endpoints.triton.server.server",
        ),
        *(
            "gateway.accounting.otlp.collector",
            "gateway.classify.pseudonyms",
            "gateway.cluster.workers.worker",
        ),
        *("gateway.cluster.workers.parent", "gateway.pipeline.shadow.shadow"),
        # other commands
        *("gateway.demo", "gateway.simulate", "gateway.app.imports", "gateway.app.top"),
    }
    assert _with_parts(there, unwanted) == set()


def test_a_scanner_imports_none_of_what_only_its_gateway_needs(
    settings: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "spec"
    _modules(_SPEC, settings, spec)
    there = _modules(_SCANNING, spec)
    assert {"gateway.classify.scanner.recognizers", "presidio_analyzer"} <= there
    unwanted = {
        *(
            "asyncio",
            "pydantic",
            "pydantic_core",
            "numpy",
            "gateway.config",
            "gateway.accounting.audit",
        ),
        *("spacy", "stanza", "transformers", "requests", "filelock", "multiprocessing", "httpx"),
        "presidio_analyzer.nlp_engine.spacy_nlp_engine",
    }
    assert _with_parts(there, unwanted) == set()
