"""The commands that read queries alone: check and translate. They load no tables and no kernels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from motet.cli.options import SourceDialect
from motet.cli.report import say_warnings_or_raise, warn
from motet.errors import DataError
from motet.explain.formatting import format_count
from motet.language import read
from motet.model.validate import find_problems
from motet.options import Options


def check(file: Path, events: Sequence[Path] | None, options: Options) -> None:
    """Parse and validate; against data where there is some."""
    workload = read(file)
    if not events:
        say_warnings_or_raise(find_problems(workload), workload)
    else:
        from motet.pipeline import check_events, open_source

        warn(check_events(workload, open_source(list(events), options, workload), options), workload)
    defined = f" and {format_count(len(workload.definitions), 'event definition')}" if workload.definitions else ""
    write_text(f"{file}: {format_count(len(workload.queries), 'query')}{defined}, no errors")


def translate(file: Path, source: SourceDialect, name: str, time: str, type: str) -> None:
    """Translate, and write the queries with what to mind about them."""
    from motet.dialects import translate as translate_text

    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no file {str(file)!r}") from None
    except UnicodeDecodeError:
        raise DataError(f"the file {str(file)!r} is not UTF-8 text") from None
    write_text(translate_text(text, source, time=time, type=type, name=name, origin=str(file)).text.rstrip())


def write_text(text: str, output: Path | None = None) -> None:
    """Write a text on stdout, or as a file that appears whole or not at all."""
    if output is None or str(output) == "-":
        sys.stdout.write(text + "\n")
        return
    from motet.io.writers import open_output

    require_file(output)
    with open_output(output) as stream:
        stream.write((text + "\n").encode())


def require_file(output: Path) -> None:
    """Raise `DataError` where no file can be written: at a folder, or in one that is not there."""
    if not output.parent.is_dir() or output.is_dir():
        raise DataError(f"{output} is a folder: name a file" if output.is_dir() else f"no folder {output.parent}")
