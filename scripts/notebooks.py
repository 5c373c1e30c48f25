"""Show the example notebooks as pages of the site, with the outputs that are kept in them.

A hook of mkdocs. `python -m tests.docs.walkthrough examples/notebooks/*.ipynb` runs the notebooks and keeps what comes
out; tests hold that it is still true.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    for notebook in sorted(FOLDER.glob("*.ipynb")):
        text = "\n\n".join(render_notebook(nbformat.read(notebook, as_version=4)))
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=f"{text}\n"))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks, which are right in a checkout, lead to their pages."""
    return re.sub(r"\]\(\.\./examples/(notebooks/\w+)\.ipynb\)", r"](\1.md)", markdown)


def render_notebook(notebook: Any) -> Iterator[str]:
    """Yield the cells of a notebook as Markdown, each followed by its outputs."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source
            continue
        yield f"```python\n{cell.source}\n```"
        for output in cell.outputs:
            yield render_output(output)


def render_output(output: Any) -> str:
    """Return an output as Markdown: a chart, a table or a page as it is, anything else as text."""
    if output.output_type == "stream":
        return to_text_block(output.text)
    data = output.data
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            # Blank lines would end the block, and indented ones become code. Scripts in frames need their lines.
            lines = (line.strip() for line in drop_styles(data[kind]).splitlines())
            return f'<div class="output">{"&#10;".join(line for line in lines if line)}</div>'
    return to_text_block(data["text/plain"])


def to_text_block(text: str) -> str:
    """Return text as a block that keeps its lines."""
    return f'<pre class="output"><code>{html.escape(text.rstrip()).replace(chr(10), "&#10;")}</code></pre>'


def drop_styles(text: str) -> str:
    """Drop style sheets of tables, which would hold for the whole page, and frames: the site has its own."""
    text = re.sub(r"<style\b[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    return text.replace('<table border="1" class="dataframe">', "<table>")
