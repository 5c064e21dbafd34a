"""The key of a journal, and the notes that it signs of the chain."""

from __future__ import annotations

from pathlib import Path

from gateway.accounting.audit.chain import ChainHead
from gateway.accounting.audit.journal.disk import written_whole
from gateway.accounting.audit.journal.segments import PUBLIC_KEY, SIGNING_KEY
from gateway.accounting.audit.note import Checkpoint, PublicKey, SigningKey


class CheckpointSigner:
    """Signs for one chain, by its origin."""

    def __init__(self, directory: Path, private: Path | None, origin: str) -> None:
        """The key in the file `private`, or in the directory; made there if there is none. Its
        public half is written beside the records. Raises AuditError or OSError."""
        path = private or directory / SIGNING_KEY
        self.new_key = not path.exists()  # it is made now
        if self.new_key:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._origin = origin
        self._key = SigningKey.from_file(path, origin)
        public = directory / PUBLIC_KEY
        if not public.exists() or public.read_text().strip() != str(self.public):
            written_whole(public, f"{self.public}\n".encode())

    @property
    def public(self) -> PublicKey:
        return self._key.public

    def note(self, head: ChainHead) -> bytes:
        """A signed note of the chain up to its head."""
        return self._key.sign(Checkpoint(self._origin, head.size, head.tree.root()).text).encode()
