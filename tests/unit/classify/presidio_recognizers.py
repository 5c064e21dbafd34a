"""Recognizers as operators write them. Named by module in settings, and by class in their YAML."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

from presidio_analyzer import EntityRecognizer, RecognizerResult
from presidio_analyzer.nlp_engine import NlpArtifacts


class AfterMet(EntityRecognizer):
    """Whoever was met: one or more capitalised words after "met"."""

    def __init__(self, supported_language: str = "en", **_: object) -> None:
        super().__init__(["PERSON", "DATE_TIME"], supported_language=supported_language)

    def load(self) -> None:
        """Nothing to load."""

    def analyze(
        self, text: str, entities: list[str], nlp_artifacts: NlpArtifacts | None = None
    ) -> list[RecognizerResult]:
        found = [
            RecognizerResult("PERSON", *match.span(1), 0.6)
            for match in re.finditer(r"\bmet ((?:[A-Z]\w+ ?)+\b)", text)
        ]
        if "explode" in text:
            raise ValueError(text)
        return [*found, RecognizerResult("DATE_TIME", 0, len(text), 0.9)]


class Downloads(AfterMet):
    """Fetches its model when it is loaded: from the address in the environment of its tests."""

    def load(self) -> None:
        host, _, port = os.environ["LC_ALL"].partition(":")
        socket.create_connection((host, int(port)))


class RunsPip(AfterMet):
    """Fetches its model by a program, which could open the sockets that it may not open itself."""

    def load(self) -> None:
        host, _, port = os.environ["LC_ALL"].partition(":")
        code = f"import socket; socket.create_connection(({host!r}, {port}))"
        subprocess.run([sys.executable, "-c", code], check=True)
