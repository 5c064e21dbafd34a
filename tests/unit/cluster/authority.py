"""Certificates for tests, by openssl as docs/how-to/several-gateways.md shows it."""

from __future__ import annotations

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    def __init__(self, where: Path, name: str = "authority") -> None:
        self._where = where
        self.ca = where / f"{name}.pem"
        self._key = where / f"{name}.key"
        _openssl(
            "req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}",
            "-keyout", str(self._key), "-out", str(self.ca),
        )  # fmt: skip

    def issue(self, name: str) -> tuple[Path, Path]:
        """The certificate of a gateway of this name, and its key."""
        cert, key, asked = (self._where / f"{name}.{end}" for end in ("pem", "key", "csr"))
        said = self._where / f"{name}.ext"
        said.write_text(f"subjectAltName=DNS:{name}\n")
        _openssl(
            "req", "-new", *_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(asked)
        )
        _openssl(
            "x509", "-req", "-in", str(asked), "-days", "2", "-extfile", str(said),
            "-CA", str(self.ca), "-CAkey", str(self._key), "-CAcreateserial", "-out", str(cert),
        )  # fmt: skip
        return cert, key


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
