"""The state of a stream as bytes: a version, a header in JSON, and named sections of Arrow data and plain words.

What is saved names queries by what they ask (`fingerprint`) and columns by name, never by number, so that a changed
workload can pick out what it still needs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.program import Program
from motet.errors import RunError
from motet.language.printer import to_text
from motet.model.query import EventDefinition
from motet.plan.compiled import CompiledQuery

MAGIC = b"MOTET\x00"
VERSION = 1


@dataclass(frozen=True)
class Saved:
    """A header, and sections by name."""

    header: dict[str, Any]
    sections: Mapping[str, Any]

    def table(self, name: str) -> pa.Table:
        """A section that holds a table."""
        return pa.ipc.open_stream(pa.py_buffer(self.sections[name])).read_all()

    def words(self, name: str) -> NDArray[np.int64]:
        """A section that holds whole numbers."""
        return np.frombuffer(self.sections[name], np.int64)

    def to_bytes(self) -> bytes:
        sizes = {name: len(body) for name, body in self.sections.items()}
        head = json.dumps({**self.header, "sections": sizes}).encode()
        # Sections begin at whole words, so that they can be read where they lie.
        head += b" " * (-(len(MAGIC) + 2 + 4 + len(head)) % 8)
        start = MAGIC + VERSION.to_bytes(2, "little") + len(head).to_bytes(4, "little") + head
        bodies = ((body, b"\0" * (-len(body) % 8)) for body in self.sections.values())
        return b"".join([start, *(part for body in bodies for part in body)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Saved:
        """Read what any version up to this one wrote."""
        view = memoryview(data)
        if bytes(view[: len(MAGIC)]) != MAGIC:
            raise RunError("this is not the state of a motet stream: is the checkpoint another query's?")
        at = len(MAGIC)
        version = int.from_bytes(view[at : at + 2], "little")
        if version > VERSION:
            raise RunError(f"the state was written by a newer motet (format {version}, this one reads up to {VERSION})")
        size = int.from_bytes(view[at + 2 : at + 6], "little")
        at += 6
        header = json.loads(bytes(view[at : at + size]))
        at += size
        sections = {}
        for name, length in header.pop("sections").items():
            sections[name] = view[at : at + length]
            at += length + -length % 8
        return cls(header, sections)


def table_bytes(table: pa.Table) -> Any:
    """A table as a section."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def fingerprint(program: Program, compiled: CompiledQuery) -> str:
    """What a query asks, whatever its name: equal for queries that always hold equal totals."""
    types = {symbol.type for symbol in (*compiled.symbols, *compiled.absences, *compiled.negs)}
    definitions = [
        to_text(EventDefinition(name, condition))
        for name, condition in sorted(program.definitions.items(), key=lambda item: item[0])
        if name in types
    ]
    schema = program.schema
    reading = f"{schema.time} {schema.type} {schema.time_unit if schema.is_whole else ''}"
    text = "\n".join([reading, *definitions, to_text(replace(compiled.query, name="_"))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
