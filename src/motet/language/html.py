"""Queries and workloads as a notebook shows them: their text, each query of many behind its name."""

from __future__ import annotations

from html import escape

from motet.language.printer import pattern_text, to_text
from motet.model.query import Query, Workload

MOST_OPEN = 3  # queries that are shown open
MOST_QUERIES = 50
TEXT = "margin: 0.2em 0 0.6em; padding: 0.6em 0.9em; border-left: 3px solid #8888; overflow: auto; text-align: left"


def query_html(query: Query) -> str:
    """Format the text of a query."""
    return f'<pre style="{TEXT}">{escape(to_text(query).rstrip())}</pre>'


def workload_html(workload: Workload) -> str:
    """Format the queries of a workload, by name and pattern; the text of each unfolds."""
    queries = workload.queries
    parts = [f"<p><b>{len(queries):,} {'query' if len(queries) == 1 else 'queries'}</b></p>"]
    parts += [f'<pre style="{TEXT}">{escape(to_text(each).rstrip())}</pre>' for each in workload.definitions]
    is_open = " open" if len(queries) <= MOST_OPEN else ""
    for query in queries[:MOST_QUERIES]:
        head = f"<b>{escape(query.name)}</b> <code>{escape(pattern_text(query.pattern))}</code>"
        parts.append(f"<details{is_open}><summary>{head}</summary>{query_html(query)}</details>")
    if len(queries) > MOST_QUERIES:
        parts.append(f"<p>... and {len(queries) - MOST_QUERIES:,} more</p>")
    return "".join(parts)


def show_in_notebooks() -> None:
    """Give queries and workloads their HTML form for notebooks: the model itself knows nothing of text."""
    for kind, show in ((Query, query_html), (Workload, workload_html)):
        setattr(kind, "_repr_html_", show)  # noqa: B010
