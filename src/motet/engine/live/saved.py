"""Serialize stream state: a version, a JSON header, and named sections of Arrow data and integers.

Saved state names queries by `fingerprint` and columns by name, never by number, so that a changed workload can pick out
what it still needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.errors import RunError

MAGIC = b"MOTET\x00"
VERSION = 3


@dataclass(frozen=True)
class SavedState:
    """A header, and sections by name."""

    header: dict[str, Any]
    sections: Mapping[str, Any]

    def table(self, name: str) -> pa.Table:
        """Read a section that holds a table."""
        return pa.ipc.open_stream(pa.py_buffer(self.sections[name])).read_all()

    def words(self, name: str) -> NDArray[np.int64]:
        """Read a section that holds integers."""
        return np.frombuffer(self.sections[name], np.int64)

    def parts(self) -> list[Any]:
        """Return the bytes in pieces: version and header, then the sections, each aligned to 8 bytes."""
        bodies = [part for body in self.sections.values() for part in (body, b"\0" * (-len(body) % 8))]
        return [self._head(), *bodies]

    def to_bytes(self, *, compressed: bool = False) -> bytes:
        """Return all bytes in one piece: compressed to be stored, plain to be read soon."""
        head, *bodies = self.parts()
        if not compressed:
            return b"".join([head, *bodies])
        body = b"".join(bodies)
        return self._head(size=len(body)) + bytes(pa.compress(byte_shuffle(body), codec="lz4", asbytes=True))

    @property
    def size(self) -> int:
        """The size of the sections, uncompressed."""
        return sum(map(len, self.sections.values()))

    def _head(self, **more: int) -> bytes:
        sizes = {name: len(body) for name, body in self.sections.items()}
        head = json.dumps({**self.header, **more, "sections": sizes}).encode()
        head += b" " * (-(len(MAGIC) + 2 + 4 + len(head)) % 8)
        return b"".join([MAGIC, VERSION.to_bytes(2, "little"), len(head).to_bytes(4, "little"), head])

    @classmethod
    def from_bytes(cls, data: Any) -> SavedState:
        """Read the bytes of any version up to this one."""
        view = memoryview(data)
        if bytes(view[: len(MAGIC)]) != MAGIC:
            raise RunError("this is not the state of a motet stream: is the checkpoint another query's?")
        at = len(MAGIC)
        version = int.from_bytes(view[at : at + 2], "little")
        if version > VERSION:
            raise RunError(
                f"the state was written by a newer motet (format {version}, this one reads up to {VERSION}): "
                "install that one, or begin with a new checkpoint"
            )
        size = int.from_bytes(view[at + 2 : at + 6], "little")
        at += 6
        header = json.loads(bytes(view[at : at + size]))
        body = view[at + size :]
        raw = header.pop("size", None)
        if raw is not None:
            body = memoryview(pa.decompress(body, decompressed_size=raw, codec="lz4", asbytes=True))
            if version > 1:
                body = byte_unshuffle(body)
        sections = {}
        at = 0
        for name, length in header.pop("sections").items():
            sections[name] = body[at : at + length]
            at += length + -length % 8
        return cls(header, sections)


def byte_shuffle(body: bytes) -> bytes:
    """Reorder bytes: the first byte of each word, then the second of each, and so on.

    Words are mostly small numbers, so most bytes are then runs of zeros, and the compressed size drops to a third.
    """
    return np.frombuffer(body, np.uint8).reshape(-1, 8).T.tobytes()


def byte_unshuffle(body: memoryview) -> memoryview:
    """Undo `byte_shuffle`."""
    return memoryview(np.frombuffer(body, np.uint8).reshape(8, -1).T.tobytes())


def table_to_bytes(table: pa.Table) -> Any:
    """Serialize a table as a section."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()
