"""`python requirements/install.py LOCK`: the locked set and this checkout, into this environment.

pip prints either hundreds of lines or, with --quiet, none for a minute. This prints one that moves
(on a terminal; elsewhere one for every quarter), and what pip said when it fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
_SEEN = re.compile(r"(?:Collecting|Requirement already satisfied:|Ignoring) ([A-Za-z0-9._-]+)")
_PIN = re.compile(r"^[A-Za-z0-9._-]+==", re.MULTILINE)


class Teller:
    """One line of progress."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total = name, total
        self._started_s = time.monotonic()
        self._done = 0
        self._told_quarter = 0

    def seen(self, package: str) -> None:
        self._done = min(self._done + 1, self._total)
        quarter = 4 * self._done // self._total
        if sys.stdout.isatty():
            self._put(f"{self._done} of {self._total}: {package}", end="")
        elif quarter > self._told_quarter:
            self._told_quarter = quarter
            self._put(f"{self._done} of {self._total}")

    def unpacking(self) -> None:
        self._put("unpacking", end="" if sys.stdout.isatty() else "\n")

    def done(self) -> None:
        self._put("installed")

    def _put(self, what: str, end: str = "\n") -> None:
        start = "\r\x1b[K" if sys.stdout.isatty() else ""
        took_s = time.monotonic() - self._started_s
        print(f"{start}{self._name}: {what} ({took_s:.0f} s)", end=end, flush=True)


def main() -> int:
    lock = Path(sys.argv[1])
    text = lock.read_text(encoding="utf-8")
    teller = Teller(lock.name, len(_PIN.findall(text)))
    locked = ("install", "--require-hashes", "--progress-bar=off", "--requirement", str(lock))
    # The checkout itself, with the setuptools of the lock; pip takes no hash of a directory.
    package = ("install", "--no-deps", "--no-build-isolation", "--editable", str(_ROOT))
    if code := _pip(locked, teller) or _pip(package, None):
        return code
    teller.done()
    return 0


def _pip(arguments: tuple[str, ...], teller: Teller | None) -> int:
    said: list[str] = []
    with subprocess.Popen(
        (*_PIP, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if teller is None:
                continue
            if found := _SEEN.match(line):
                teller.seen(found[1])
            elif line.startswith("Installing collected packages"):
                teller.unpacking()
    if pip.returncode:
        sys.stderr.write("\n" + "".join(said[-40:]))
        sys.stderr.write("The installation did not finish; running it again goes on from here.\n")
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main())
