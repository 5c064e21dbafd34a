"""Recognizers of ours: what each finds, and the look-alikes that it leaves alone."""

from __future__ import annotations

import time

import pytest

from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.config import ClassifySettings

FOUND = [
    ("MEDICAL_RECORD", "MRN 00482913: pt c/o chest pain"),
    ("MEDICAL_RECORD", "Waypoint MRN-532242, arriving"),
    ("MEDICAL_RECORD", "**Medical Record Number:** MED17710998"),
    ("MEDICAL_RECORD", "patient id 4711880 was admitted"),
    ("CN_RESIDENT_NUMBER", "\u8eab\u4efd\u8bc1\u53f711010519491231002X"),
    ("PHONE_NUMBER", "Residence 0044-32.227.4965"),
    ("PHONE_NUMBER", "telephone: 011 49 30 901820"),
    ("PHONE_NUMBER", "+49 30 901820"),
    ("US_DRIVER_LICENSE", "My driver's license number is A56319335"),
    ("EMAIL_ADDRESS", "write to ops@corp.internal"),
    ("CREDIT_CARD", "pay with 6304 0000 0000 0000"),
    ("SECRET", "AKIAIOSFODNN7EXAMPLE"),
]
NOT_FOUND = [
    "The medical record was lost in 1998",
    "one patient in 2000 recovers",
    "110105194912310021 fails its check character",
    "part 0012-4567 of the drawing",
    "round 00.12.34 of the clock",
    "the A56319335 road",
]


@pytest.mark.parametrize(("type_", "text"), FOUND)
def test_ours_are_found(type_: str, text: str, scanner: PresidioScanner) -> None:
    assert type_ in {f.type for f in scanner.scan(text)}


@pytest.mark.parametrize("text", NOT_FOUND)
def test_look_alikes_are_not(text: str, scanner: PresidioScanner) -> None:
    assert not Profile.from_settings(ClassifySettings()).restricts(scanner.scan(text))


@pytest.fixture(scope="module")
def everything() -> PresidioScanner:
    return PresidioScanner(ClassifySettings())


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("see https://example.com/page?a=b.", 1),
        ("www.example.com or ftp://example.com/x", 2),
        ("import os.sys, then e.g. main.py", 0),
    ],
)
def test_links_have_a_scheme_or_a_www(text: str, links: int, everything: PresidioScanner) -> None:
    assert [f.type for f in everything.scan(text)].count("URL") == links


@pytest.mark.parametrize("unit", ["a.", "1.", "www.", "http://", "00 1", "MRN ", "11010519491231"])
def test_no_recognizer_takes_long_over_a_pattern(unit: str, everything: PresidioScanner) -> None:
    """Two seconds each for the first two with Presidio's own pattern for URLs."""
    text = (unit * 2048)[:2048]
    started_s = time.thread_time()
    everything.scan(text)
    assert time.thread_time() - started_s < 1.0
