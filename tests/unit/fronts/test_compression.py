"""What goes out compressed; what comes in is in `test_http`."""

from __future__ import annotations

import gzip
import zlib

import pytest

from gateway.core.errors import BodyTooLarge
from gateway.server import compression


@pytest.mark.parametrize(
    ("offer", "chosen"),
    [
        ("", ""),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("GZip", "gzip"),
        ("gzip, deflate", "gzip"),
        ("deflate, gzip", "deflate"),
        ("gzip;q=0.5, deflate;q=0.8", "deflate"),
        ("gzip; q=0.5 ,deflate", "deflate"),
        ("gzip;q=0, deflate;q=0.0", ""),
        ("br, zstd", ""),
        ("br, gzip;q=0.1", "gzip"),
        ("identity", ""),
        ("*", ""),
        ("gzip;q=2", ""),
        ("gzip;level=9", ""),
        ("gzip;;q=1", ""),
        ("gzip" * 1000, ""),
    ],
)
def test_the_offer_that_the_client_likes_best_is_chosen(offer: str, chosen: str) -> None:
    assert compression.chosen(offer) == chosen


@pytest.mark.anyio
@pytest.mark.parametrize("size", [0, 1, 100, 1 << 20])
async def test_what_is_deflated_inflates_to_the_same(size: int) -> None:
    body = bytes(at % 251 for at in range(size))
    assert gzip.decompress(await compression.deflated(body, "gzip")) == body
    assert zlib.decompress(await compression.deflated(body, "deflate")) == body
    for encoding in ("gzip", "deflate"):
        found = await compression.inflated(
            await compression.deflated(body, encoding), encoding, size
        )
        assert found == body


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_the_cap_is_on_what_comes_out(encoding: str) -> None:
    body = await compression.deflated(bytes(1000), encoding)
    assert len(await compression.inflated(body, encoding, 1000)) == 1000
    with pytest.raises(BodyTooLarge, match="more than 999 bytes"):
        await compression.inflated(body, encoding, 999)
