"""Format the rows of a query as an HTML table for notebooks: an event is a group of columns, a list of them lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pyarrow as pa

from motet.io.query_columns import QueryColumns
from motet.io.text_tables import format_cell, format_value, is_number
from motet.io.values import to_rows

MAX_ROWS = 10
MAX_EVENTS = 5  # of a list in one cell
MAX_LETTERS = 120
LEFT, RIGHT = "text-align: left", "text-align: right"


@dataclass(frozen=True)
class _Column:
    """A column of the result, and the attributes of the events in it; a type that all of them have is in the head."""

    name: str
    kind: pa.DataType
    attributes: tuple[str, ...]
    note: str

    @property
    def is_list(self) -> bool:
        return bool(pa.types.is_list(self.kind) and self.attributes)

    @property
    def width(self) -> int:
        return 1 if self.is_list or not self.attributes else len(self.attributes)

    def format_cells(self, rows: QueryColumns, value: Any) -> Iterator[str]:
        """Yield the cells of a row."""
        if not self.attributes:
            yield _format_html_cell(format_value(rows, self.name, value), self.kind)
        elif not self.is_list:
            for name in self.attributes:
                yield _format_html_cell(format_cell(None if value is None else value[name]), self.kind.field(name).type)
        else:
            events = [] if value is None else value
            texts = (" · ".join(format_cell(event[name]) for name in self.attributes) for event in events[:MAX_EVENTS])
            lines = [escape(_shorten(text)) for text in texts]
            lines += [f"... and {len(events) - MAX_EVENTS:,} more"] if len(events) > MAX_EVENTS else []
            yield f'<td style="{LEFT}; white-space: nowrap">{"<br>".join(lines)}</td>'


def format_table(rows: QueryColumns, found: pa.Table) -> str:
    """Return the first rows of a query as HTML."""
    name = escape(rows.query.name)
    if not len(found):
        return f"<p><b>{name}</b>: no match</p>"
    shown = to_rows(found.slice(0, MAX_ROWS), " ")
    columns = [_make_column(label, found.schema.field(label).type, shown) for label in rows.shown]
    body = "".join(
        f"<tr>{''.join(cell for each in columns for cell in each.format_cells(rows, row[each.name]))}</tr>"
        for row in shown
    )
    hidden = len(found) - MAX_ROWS
    more = f"<p>... and {hidden:,} more row{'s' if hidden > 1 else ''}</p>" if hidden > 0 else ""
    caption = f'<caption style="{LEFT}; font-weight: bold">{name}</caption>'
    table = f"<table>{caption}<thead>{_format_head(columns)}</thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x: auto">{table}</div>{more}'


def _make_column(name: str, kind: pa.DataType, shown: Sequence[dict[str, Any]]) -> _Column:
    event = kind.value_type if pa.types.is_list(kind) else kind
    if not pa.types.is_struct(event):
        return _Column(name, kind, (), "")
    values = [row[name] for row in shown if row[name] is not None]
    events = [each for value in values for each in value] if pa.types.is_list(kind) else values
    types = {each.get("type") for each in events}
    note = str(*types) if len(types) == 1 and types != {None} else ""
    return _Column(name, kind, tuple(field.name for field in event if not (note and field.name == "type")), note)


def _format_head(columns: Sequence[_Column]) -> str:
    """Return the lines of the head: a second one has the attributes of events."""
    nested = any(column.attributes for column in columns)
    first, second = [], []
    for column in columns:
        name = escape(column.name) + (f" ({escape(column.note)})" if column.note else "")
        side = RIGHT if is_number(column.kind) else LEFT
        spans = f' colspan="{column.width}" scope="colgroup"' if column.attributes else ' scope="col"'
        spans += ' rowspan="2"' if nested and not column.attributes else ""
        first.append(f'<th{spans} style="{LEFT if column.attributes else side}">{name}</th>')
        titles = [" · ".join(column.attributes)] if column.is_list else column.attributes
        second += [f'<th scope="col" style="{LEFT}; font-weight: normal">{escape(title)}</th>' for title in titles]
    return f"<tr>{''.join(first)}</tr>" + (f"<tr>{''.join(second)}</tr>" if nested else "")


def _format_html_cell(text: str, kind: pa.DataType) -> str:
    return f'<td style="{RIGHT if is_number(kind) else LEFT}">{escape(_shorten(text))}</td>'


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_LETTERS else f"{text[: MAX_LETTERS - 1]}…"
