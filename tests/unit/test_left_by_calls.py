"""A call that has ended is held by nobody: no collection is needed to free what it was sent with.

`gateway/core/process/gc_tuning.py` lets collections be rare, and one call may have 60 MB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from tests.unit import release_rig
from tests.unit.http2 import peers
from tests.unit.release_rig import LEFT_BYTES, SOON, Left, Site, left_by

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("one_event_loop"),
    pytest.mark.interpreted,  # tracebacks of what is compiled have no frames
]

FRONTS: dict[str, tuple[Any, str]] = {
    "chat": (release_rig.chat, "chat"),
    "chat-streamed": (release_rig.chat_streamed, "chat"),
    "v2": (release_rig.v2, "rest"),
    "infer": (release_rig.infer, "grpc"),
    "infer-over-rest": (release_rig.infer, "rest"),
    "stream-infer": (release_rig.stream_infer, "rest"),
}
"""By name: how a caller asks, and by which protocol its endpoints are asked."""


@pytest.fixture(scope="module")
async def site(
    one_event_loop: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    async with release_rig.site(tmp_path_factory.mktemp("site")) as running:
        yield running


def check(left: Left) -> None:
    assert left.cycles == ()
    assert left.bytes < LEFT_BYTES


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize(
    "mode", ["answers", "refuses", "fails", "cuts", "hangs", "gone", "late", "unknown"]
)
async def test_nothing_of_a_call_is_left(site: Site, front: str, mode: str) -> None:
    """`hangs`: its caller leaves. `late`: its time passes. `gone`: no endpoint is there."""
    ask, kind = FRONTS[front]
    model = {"late": f"{kind}-hangs", "unknown": "unknown"}.get(mode, f"{kind}-{mode}")
    headers = SOON if mode == "late" else ()
    call = partial(ask, site, model, leaves=mode == "hangs", headers=headers)
    status, left = await left_by(site, call)
    assert status, mode
    check(left)


@pytest.mark.parametrize("mode", ["breaks", "errs"])
async def test_nothing_of_a_stream_that_breaks_off_is_left(site: Site, mode: str) -> None:
    _, left = await left_by(site, partial(release_rig.chat_streamed, site, f"chat-{mode}"))
    check(left)


@pytest.mark.parametrize("front", [name for name, (_, kind) in FRONTS.items() if kind != "grpc"])
async def test_nothing_is_left_where_an_endpoint_does_not_speak_http(
    site: Site, front: str
) -> None:
    ask, kind = FRONTS[front]
    _, left = await left_by(site, partial(ask, site, f"{kind}-babbles"))
    check(left)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v2/models/{}/infer", peers.INFER])
async def test_nothing_of_what_cannot_be_read_is_left(site: Site, path: str) -> None:
    call = partial(release_rig.unreadable, site, path, "rest-answers")
    status, left = await left_by(site, call)
    assert status == "malformed_body"
    check(left)


async def test_nothing_of_a_stream_with_a_malformed_message_is_left(site: Site) -> None:
    status, left = await left_by(site, partial(release_rig.broken_stream, site, "rest-answers"))
    assert status == "13"
    check(left)
