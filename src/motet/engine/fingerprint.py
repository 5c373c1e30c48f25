"""Fingerprint queries: equal for queries that always hold equal totals, whatever their names."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from motet.language.printer import to_text
from motet.model.query import EventDefinition
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery
from motet.template.symbols import Symbol

if TYPE_CHECKING:
    from motet.engine.program import Program


def fingerprint(program: Program, compiled: CompiledQuery | DetectQuery) -> str:
    """Return a digest of a query, of the types it defines, and of how times are read."""
    types = {symbol.type for symbol in _symbols(compiled)}
    definitions = [
        to_text(EventDefinition(name, condition))
        for name, condition in sorted(program.definitions.items(), key=lambda item: item[0])
        if name in types
    ]
    schema = program.schema
    reading = f"{schema.time} {schema.type} {schema.time_unit if schema.has_integer_time else ''}"
    text = "\n".join([reading, *definitions, to_text(replace(compiled.query, name="_"))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _symbols(compiled: CompiledQuery | DetectQuery) -> tuple[Symbol, ...]:
    if isinstance(compiled, DetectQuery):
        return (*compiled.symbols, *compiled.absent)
    return (*compiled.symbols, *compiled.absences, *compiled.negs)
