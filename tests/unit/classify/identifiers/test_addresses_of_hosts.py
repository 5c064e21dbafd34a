"""Which network addresses point at somebody."""

from __future__ import annotations

import pytest

from gateway.classify.identifiers.contact import HostAddress, identifies_nobody


@pytest.mark.parametrize(
    "address",
    [
        *("192.168.1.10", "10.0.0.1", "172.16.5.4", "172.31.255.1", "127.0.0.1", "0.0.0.0"),
        *("169.254.1.1", "255.255.255.0", "8.8.8.8", "1.1.1.1", "::1", "fe80::1", "fd00::2"),
        *("192.168.0.0/16", "fe80::1%eth0", "010.000.000.001"),
    ],
)
def test_an_address_that_every_network_has_identifies_nobody(address: str) -> None:
    assert identifies_nobody(address)
    assert HostAddress().analyze(f"the host {address} answers", ["IP_ADDRESS"]) == []


@pytest.mark.parametrize(
    "address",
    [
        *("81.2.69.142", "172.15.0.1", "172.32.0.1", "192.169.1.1", "11.0.0.1", "203.0.113.77"),
        *("2a02:8071:22d1::17", "2001:db8::8a2e:370:7334", "81.2.69.142/32"),
    ],
)
def test_an_address_of_the_internet_does(address: str) -> None:
    text = f"the host {address} answers"
    found = [text[r.start : r.end] for r in HostAddress().analyze(text, ["IP_ADDRESS"])]
    assert address in found


@pytest.mark.parametrize(
    "text",
    [
        *("version 81.2.69.142", "Chrome/114.0.5735.90", "pip install x==21.3.1.2", "v21.3.1.2"),
        *("section 4.2.1.3", "§ 4.2.1.3", "rows[1::2]", "std::dead::beef", "release: 21.3.1.2"),
    ],
)
def test_versions_sections_and_slices_are_no_addresses(text: str) -> None:
    assert HostAddress().analyze(text, ["IP_ADDRESS"]) == []


def test_a_short_address_counts_when_it_is_asked_for() -> None:
    assert HostAddress().analyze("the IP is 4.2.1.3", ["IP_ADDRESS"])
