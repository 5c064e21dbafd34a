"""Routers of inference engines, written in Rust: they balance load and read nothing."""

from __future__ import annotations

import json

from loadtests.peers import Running, Site, environments
from loadtests.peers.process import Process
from loadtests.ports import free_port

_START_S = 60.0


class Router:
    """With its own defaults but for the port and round robin."""

    note = ""

    def __init__(self, name: str, requirement: str, arguments: tuple[str, ...]) -> None:
        self.name = name
        self._requirement, self._arguments = requirement, arguments
        self._process: Process | None = None

    def start(self, site: Site) -> Running:
        bin_folder = environments.python(site.environments / self.name, [self._requirement])
        scratch = site.scratch / self.name
        scratch.mkdir()
        port = free_port()
        self._process = Process(
            [
                bin_folder / self.name,
                *self._arguments,
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--prometheus-port", str(free_port())),
                *("--worker-urls", site.url, "--policy", "round_robin"),
            ],
            scratch / "log",
            cwd=scratch,
        )
        body = {"model": "echo", "messages": [{"role": "user", "content": "ready?"}]}
        self._process.await_answer(
            port, "/v1/chat/completions", _START_S, json.dumps(body).encode()
        )
        return Running((self._process.pid,), f"http://127.0.0.1:{port}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


def peers() -> list[Router]:
    return [
        Router("sglang-router", "sglang-router==0.3.2", ("launch",)),
        Router("vllm-router", "vllm-router==0.1.17", ()),
    ]
