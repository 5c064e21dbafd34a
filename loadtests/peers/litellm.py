"""LiteLLM's proxy, alone and with its Presidio guardrail in front of every call."""

from __future__ import annotations

import json
from pathlib import Path

from loadtests.peers import Running, Site, environments
from loadtests.peers.process import Process
from loadtests.ports import free_port

_REQUIREMENTS = ("litellm[proxy]==1.106.2",)
_PRESIDIO = (
    "presidio-analyzer==2.2.366",
    "presidio-anonymizer==2.2.366",
    "starlette==1.10.0",
    "uvicorn==0.54.0",
    "uvloop==0.23.0",
    "httptools==0.9.0",
)
_START_S = 180.0
_KEY = "sk-under-load"
_SETTINGS = """
model_list:
  - model_name: echo
    litellm_params: {{model: openai/echo, api_base: "{url}/v1", api_key: unused}}
litellm_settings: {{telemetry: false, num_retries: 0}}
general_settings: {{master_key: {key}}}
"""
_GUARDRAIL = """
guardrails:
  - guardrail_name: presidio
    litellm_params:
      guardrail: presidio
      mode: pre_call
      default_on: true
      presidio_analyzer_api_base: "http://127.0.0.1:{port}"
      presidio_anonymizer_api_base: "http://127.0.0.1:{port}"
"""
_ALONE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks for a list of prices at its start
    "LITELLM_LOG": "ERROR",
    "HF_HUB_OFFLINE": "1",
    "NO_DOCS": "True",
}


class LiteLLM:
    def __init__(self, *, guarded: bool) -> None:
        self.name = "litellm+presidio" if guarded else "litellm"
        self.note = "one worker"
        if guarded:
            self.note += "; Presidio's patterns in a process that counts too, no model for names"
        self._guarded = guarded
        self._processes: list[Process] = []

    def start(self, site: Site) -> Running:
        bin_folder = environments.python(site.environments / "litellm", _REQUIREMENTS)
        scratch = site.scratch / self.name
        scratch.mkdir()
        text = _SETTINGS.format(url=site.url, key=_KEY)
        if self._guarded:
            text += _GUARDRAIL.format(port=self._presidio(site, scratch))
        settings = scratch / "config.yaml"
        settings.write_text(text)
        port = free_port()
        proxy = Process(
            [
                *(bin_folder / "litellm", "--config", settings),
                *("--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"),
                *("--telemetry", "False"),
            ],
            scratch / "log",
            _ALONE,
            cwd=scratch,
        )
        self._processes.append(proxy)
        headers = {"authorization": f"Bearer {_KEY}"}
        body = {"model": "echo", "messages": [{"role": "user", "content": "ready?"}]}
        proxy.await_answer(
            port, "/v1/chat/completions", _START_S, json.dumps(body).encode(), headers
        )
        pids = tuple(process.pid for process in self._processes)
        return Running(pids, f"http://127.0.0.1:{port}", headers=headers)

    def stop(self) -> None:
        for process in self._processes:
            process.stop()

    def _presidio(self, site: Site, scratch: Path) -> int:
        """Its port."""
        bin_folder = environments.python(site.environments / "presidio", _PRESIDIO)
        port = free_port()
        server = Path(__file__).with_name("presidio_server.py")
        presidio = Process(
            [bin_folder / "python", server, str(port), scratch / "blank"], scratch / "presidio.log"
        )
        self._processes.append(presidio)
        presidio.await_answer(port, "/health", _START_S)
        return port


def peers() -> list[LiteLLM]:
    return [LiteLLM(guarded=False), LiteLLM(guarded=True)]
