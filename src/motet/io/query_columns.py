"""Tell which columns of the result table belong to which query."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from motet.model.pattern import events
from motet.model.query import AllVariables, Computed, Query, Variable, Workload
from motet.model.window import TimeWindow


@dataclass(frozen=True)
class QueryColumns:
    """The columns of a query's own result: times, group and labels."""

    query: Query
    times: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns but the query's name."""
        return (*self.times, *self.query.group_by, *self.labels)

    @property
    def shown(self) -> list[str]:
        """The columns to show: the one window of a whole input has no times."""
        return [name for name in self.columns if self.query.window or name not in self.times]

    def locate(self, label: str, names: Collection[str]) -> str:
        """Return the column of a label or of a GROUP BY attribute among those of the table of all queries."""
        qualified = f"{self.query.name}.{label}"
        return qualified if qualified in names else label

    def select_rows(self, results: pa.Table) -> pa.Table:
        """Return this query's rows of the table of all queries, with its columns only."""
        rows = results.filter(pc.equal(results["query"], self.query.name))
        places = [self.locate(label, results.column_names) for label in (*self.query.group_by, *self.labels)]
        return rows.select([*self.times, *places]).rename_columns(self.columns)


def list_query_columns(workload: Workload) -> Iterator[QueryColumns]:
    """Yield the columns of each query, in the order of the workload."""
    for query in workload.queries:
        if query.is_aggregate:
            labels = dict.fromkeys(aggregate.label for aggregate in query.aggregates)
            # Windows have a start and an end, continuous results a time; a whole input is a window.
            is_windowed = query.window is None or (isinstance(query.window, TimeWindow) and query.window.slide)
            yield QueryColumns(query, ("window_start", "window_end") if is_windowed else ("time",), tuple(labels))
        else:
            yield QueryColumns(query, ("start", "end"), tuple(dict.fromkeys(_list_match_labels(query))))


def _list_match_labels(query: Query) -> Iterator[str]:
    """List the labels of a query that returns matches."""
    for item in query.returns:
        match item:
            case AllVariables():
                yield from (event.name for event in events(query.pattern))
            case Variable() | Computed():
                yield item.label
