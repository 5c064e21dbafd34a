"""One gateway for each module: every operation has a model on the premises and one in the cloud."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.live import LoopThread
from tests.unit.operations.other_apis import Provider, Received, provider
from tests.unit.whole_gateway import serving

TASKS = ("transcribe", "speak", "images", "moderate", "classify", "rerank", "generate")
KEY = "sk-provider-0123456789abcdef"


@dataclass
class House:
    """`TASK-cloud` is served in the cloud alone, `TASK` on the premises alone, and
    `TASK-public` in the cloud, unread."""

    url: str
    provider: Provider
    client: httpx.Client = field(repr=False)
    sdk: openai.OpenAI = field(repr=False)

    def taken(self) -> list[Received]:
        return self.provider.taken()


def models() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for task in TASKS:
        for suffix, endpoint in (("", "onprem"), ("-cloud", "cloud"), ("-public", "cloud")):
            served = {"endpoint": endpoint, "model": f"its-{task}", "substitute": False}
            model: dict[str, Any] = {"task": task, "served_by": [served], "canary": False}
            if suffix == "-public":
                model |= {"public": True, "public_reason": "recordings of broadcasts"}
            if task != "moderate" or not suffix:  # one alone can be left out
                made[task + suffix] = model
    return made


@contextmanager
def house(scratch: Path, **more: Any) -> Iterator[House]:
    with provider() as other:
        endpoints = {
            "onprem": {"kind": "openai", "zone": "onprem", "url": other.url("onprem")},
            "cloud": {"kind": "openai", "zone": "cloud", "url": other.url("cloud")},
            **more.pop("endpoints", {}),
        }
        loop = LoopThread()
        running = serving(scratch, endpoints, more.pop("models", models()), **more)
        client = loop.run(running.__aenter__())
        url = str(client.base_url).rstrip("/")
        with (
            httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60) as plain,
            openai.OpenAI(
                base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=plain
            ) as sdk,
        ):
            yield House(url, other, plain, sdk)
        loop.run(running.__aexit__(None, None, None))
        loop.close()


@pytest.fixture(scope="module", name="house")
def _house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("operations")) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_taken(request: pytest.FixtureRequest) -> None:
    """Of earlier tests."""
    if "house" in request.fixturenames:
        request.getfixturevalue("house").taken()
