"""M6: a cloud address that is labelled on-prem is caught, in whichever of its spellings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gateway.config import external_addresses

ADDRESSES = yaml.safe_load((Path(__file__).parent / "addresses.yaml").read_text())


@pytest.mark.parametrize("host", ADDRESSES["outside"])
def test_what_could_be_outside_is_told(host: str) -> None:
    assert external_addresses.could_be_outside(host)


@pytest.mark.parametrize("host", ADDRESSES["inside"])
def test_a_private_name_or_address_is_inside(host: str) -> None:
    assert not external_addresses.could_be_outside(host)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://gpu-1:8000", "gpu-1"),
        ("https://api.openai.com/v1", "api.openai.com"),
        ("HTTP://GPU-1/", "gpu-1"),
        ("http://[fd00::7]:8000/v2", "fd00::7"),
        ("http://gpu_1.lan.:80", "gpu_1.lan."),
        ("http://134744072/", "134744072"),
    ],
)
def test_the_host_of_a_plain_url_is_read(url: str, host: str) -> None:
    assert external_addresses.url_host(url) == host


@pytest.mark.parametrize("url", ADDRESSES["ambiguous urls"])
def test_a_url_whose_host_programs_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|[Pp]ort|IPv"):
        external_addresses.url_host(url)


def test_credentials_in_a_url_are_not_repeated_in_the_refusal() -> None:
    with pytest.raises(ValueError, match="user name") as caught:
        external_addresses.url_host("http://user:hunter2@gpu-1/")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "host"),
    [("gpu-1:8001", "gpu-1"), ("10.0.0.1:8001", "10.0.0.1"), ("[fd00::7]:8001", "fd00::7")],
)
def test_the_host_of_a_grpc_target_is_read(target: str, host: str) -> None:
    assert external_addresses.target_host(target) == host


@pytest.mark.parametrize("target", ADDRESSES["other targets"])
def test_grpcs_other_ways_to_name_a_server_are_refused(target: str) -> None:
    with pytest.raises(ValueError, match=r"must|[Pp]ort"):
        external_addresses.target_host(target)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("localhost.evil.example", False),
    ],
)  # fmt: skip
def test_only_the_loopback_is_loopback(host: str, loopback: bool) -> None:
    assert external_addresses.is_loopback(host) is loopback
