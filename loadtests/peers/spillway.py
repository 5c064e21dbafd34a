"""Spillway, run as its users do: `spillway serve` with a key, the audit and the ledger on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from loadtests import build
from loadtests.peers import Absent, Running, Site
from loadtests.peers.process import Process

_KEY = "spillway-under-load"
_START_S = 180.0

# Declares a model public, so that its calls are not read; versions without it have no such peer.
_PUBLIC_KEY = "public"

_SETTINGS = """
listen: {{http_port: 0, grpc_port: 0}}
classify: {{profile: {profile}, names: {{when: always}}}}
keys:
  load: {{key: "${{SPILLWAY_LOAD_KEY}}", tenant: load}}
endpoints:
  provider: {{kind: openai, zone: cloud, url: "{url}/v1", expected_ms: 2, max_in_flight: 1024}}
  own: {{kind: openai, zone: onprem, url: "{url}/v1", expected_ms: 2, max_in_flight: 1024,
        canary: false}}
  tensors: {{kind: kserve, zone: cloud, url: "{url}", expected_ms: 2, max_in_flight: 1024}}
  tensors-grpc: {{kind: kserve, zone: cloud, grpc: "127.0.0.1:{grpc_port}", expected_ms: 2,
                 max_in_flight: 1024}}
models:
  inspected:
    task: generate
    served_by: [{{endpoint: provider, model: echo, price_usd: 0.000001}}]
  onprem:
    task: generate
    max_batch: 64
    served_by: [{{endpoint: own, model: echo}}]
  tensors:
    tensors: clear
    served_by: [{{endpoint: tensors, model: echo, price_usd: 0.000001}}]
  tensors-grpc:
    tensors: clear
    served_by: [{{endpoint: tensors-grpc, model: echo, price_usd: 0.000001}}]
{public}
audit: {{directory: "{scratch}/audit"}}
ledger: {{path: "{scratch}/ledger.db"}}
log: {{level: warning}}
"""
_PUBLIC = """
  public:
    task: generate
    public: true
    public_reason: prompts of made-up words
    served_by: [{endpoint: provider, model: echo, price_usd: 0.000001}]
"""


class Spillway:
    """A process of its own for each name, so that one is not measured in what another left."""

    def __init__(
        self,
        name: str,
        model: str,
        note: str,
        *,
        tensors: bool = False,
        command: Sequence[str] = (sys.executable, "-m", "gateway"),
        compiled: bool = False,
        checkout: Path | None = None,
        profile: str = "patterns",
    ) -> None:
        """`command` is what `serve` and its options are put behind."""
        self._profile = profile
        self.name, self.note = name, note
        self._checkout = checkout.resolve() if checkout else None
        self._command, self.compiled = command, compiled
        self._model, self._tensors = model, tensors
        self._process: Process | None = None

    def start(self, site: Site) -> Running:
        if self.compiled and (why := build.missing()):
            raise Absent(why)
        scratch = site.scratch / self.name
        scratch.mkdir()
        public = ""
        if self._model == "public":
            if not _has_public():
                raise Absent("this version has no setting that declares a model public")
            public = _PUBLIC
        settings = scratch / "spillway.yaml"
        settings.write_text(
            _SETTINGS.format(
                url=site.url,
                grpc_port=site.grpc_port,
                scratch=scratch,
                public=public,
                profile=self._profile,
            )
        )
        ready = scratch / "ready.json"
        self._process = Process(
            [*self._command, "serve", "--config", settings, "--ready-file", ready],
            scratch / "log",
            {"SPILLWAY_LOAD_KEY": _KEY, **self._environment()},
            self._checkout,
        )
        self._process.await_file(ready, _START_S)
        ports = json.loads(ready.read_text())
        headers = {"authorization": f"Bearer {_KEY}"}
        body = {"model": self._model, "messages": [{"role": "user", "content": "ready?"}]}
        self._process.await_answer(
            ports["http_port"], "/v1/chat/completions", 30, json.dumps(body).encode(), headers
        )
        url = f"http://127.0.0.1:{ports['http_port']}"
        return Running(
            pids=(self._process.pid,),
            chat_url=url,
            chat_model=self._model,
            findings_model=None if self._model == "public" else "onprem",
            v2_url=url if self._tensors else None,
            v2_model="tensors",
            grpc_model="tensors-grpc",
            grpc_target=f"127.0.0.1:{ports['grpc_port']}" if self._tensors else None,
            headers=headers,
        )

    def _environment(self) -> dict[str, str]:
        if self._checkout is not None:
            return {"PYTHONPATH": str(self._checkout)}
        return build.environment(self.compiled)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


def _has_public() -> bool:
    said = subprocess.run(
        [sys.executable, "-m", "gateway", "schema"], capture_output=True, text=True, check=True
    )
    return _PUBLIC_KEY in json.loads(said.stdout)["$defs"]["ModelSettings"]["properties"]


def peers(before: Path | None = None) -> list[Spillway]:
    """As it ships, which is compiled; where no compiler was, the source takes its place."""
    others = [
        Spillway(
            f"spillway_before{suffix}",
            model,
            f"the source of {before}",
            tensors=True,
            checkout=before,
            profile=profile,
        )
        for suffix, model, profile in (
            ("", "inspected", "patterns"),
            ("_onprem", "onprem", "patterns"),
            ("_balanced", "onprem", "balanced"),
        )
        if before is not None
    ]
    compiled = build.shipped()
    built = "compiled" if compiled else "the source, since " + str(build.missing())
    return [
        Spillway(
            "spillway_inspected",
            "inspected",
            f"every call read by patterns, audit and ledger on disk, cloud endpoint; {built}",
            tensors=True,
            compiled=compiled,
        ),
        Spillway(
            "spillway_balanced",
            "onprem",
            "as spillway_onprem, with names looked for in every call",
            compiled=compiled,
            profile="balanced",
        ),
        Spillway(
            "spillway_public", "public", "the same, for a model declared public", compiled=compiled
        ),
        Spillway(
            "spillway_onprem",
            "onprem",
            "inspected, through the queue of an on-prem model",
            compiled=compiled,
        ),
        Spillway(
            "spillway_source",
            "inspected",
            "as spillway_inspected, of the source as it is",
            tensors=True,
        ),
        Spillway("spillway_source_onprem", "onprem", "as spillway_onprem, of the source as it is"),
        *others,
    ]
