"""Find the files at paths, detect their format and open them with Arrow."""

from __future__ import annotations

import glob
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from motet.errors import DataError, UnreadableError, did_you_mean, require_columns
from motet.options import Options
from motet.schema import list_fields

if TYPE_CHECKING:
    import pyarrow.csv as csv
    import pyarrow.dataset as ds

PARQUET, ARROW, CSV, TSV, JSONL = "parquet", "arrow", "csv", "tsv", "json lines"
TEXTS = (CSV, TSV, JSONL)
OTHER = "other"  # events that are in no files: a dataset, a query

# Ending of a file's name -> its format. Text may be compressed: `.csv.gz`, `.jsonl.zst` and so on.
ENDINGS = {
    ".parquet": PARQUET, ".pq": PARQUET, ".arrow": ARROW, ".feather": ARROW, ".csv": CSV, ".tsv": TSV,
    ".jsonl": JSONL, ".ndjson": JSONL, ".json": JSONL,
}  # fmt: skip
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
# First bytes -> how a file is compressed, or its format.
COMPRESSED_STARTS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
FORMAT_STARTS = {b"PAR1": PARQUET, b"ARROW1": ARROW, b"\xff\xff\xff\xff": ARROW}

# The types of a text file's columns are inferred from its first block.
BLOCK_BYTES = 1 << 23

COLUMN_TYPES = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us"),
}
STDIN = "-"
OTHER_DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'"}  # how each is written on a command line

ARROW_PREFIX = re.compile(r"^.*input source '(?P<file>[^']*)': (Invalid: )?")
BAD_CSV_VALUE = re.compile(r"In CSV column #(?P<at>\d+): .*error to (?P<type>\S+): (?P<problem>.*)")
DECIMAL_COMMA = re.compile(r"'[+-]?\d+,\d+'")
BAD_JSON_VALUE = re.compile(r"Column\(/(?P<path>[^)]*?)(/\[\][^)]*)?\) (?P<problem>.*)")


def describe_paths(paths: Sequence[Path]) -> str:
    """Return what messages call the files at some paths."""
    if is_pipe(paths[0]):
        return "standard input" if str(paths[0]) == STDIN else str(paths[0])
    return str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def is_pipe(path: Path) -> bool:
    """Return whether a path can be read only once: standard input (`-`), a pipe or a device."""
    return str(path) == STDIN or (path.exists() and not path.is_file() and not path.is_dir())


def find_files(paths: Sequence[Path]) -> tuple[list[Path], str]:
    """Return the event files at paths, in the order of the paths and sorted within each, and their one format.

    A path is a file, a folder or a pattern such as `logs/*.csv`. A file that several of them name is read once.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        for file in _list_files(path):
            found.setdefault(file.resolve(), file)
    files = list(found.values())
    example = {detect_format(file): file.name for file in files}
    if len(example) > 1:
        shown = ", ".join(f"{name} is {kind}" for kind, name in example.items())
        where = "folder " if len(paths) == 1 and paths[0].is_dir() else ""
        raise DataError(f"{where}{describe_paths(paths)} mixes formats: {shown}; give files of one format")
    return files, next(iter(example))


def _list_files(path: Path) -> list[Path]:
    if is_pipe(path):
        raise DataError(f"{describe_paths([path])} is read alone: give no other events with it")
    if path.is_file():
        return [path]
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file() and not _is_hidden(file.relative_to(path))]
        if not files:
            raise DataError(f"folder {path} holds no event files (looked for {', '.join(ENDINGS)})")
        return files
    if glob.has_magic(str(path)):
        matched = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207 - it may be absolute
        if not matched:
            raise DataError(f"no file matches {path}")
        return [file for each in matched for file in _list_files(each)]
    siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = did_you_mean(path.name, siblings) or ""
    raise DataError(f"no file or folder {path}" + (f"; {hint}" if hint.startswith("did you mean") else ""))


def find_base(paths: Sequence[Path], files: Sequence[Path]) -> str:
    """Return the folder below which folders named `column=value` add a column."""
    if len(paths) == 1 and paths[0].is_dir():
        return str(paths[0])
    # It is empty for files in the working directory.
    return (os.path.commonpath([file.parent for file in files]) if files else "") or "."


def _is_hidden(relative: Path) -> bool:
    return any(part.startswith((".", "_")) for part in relative.parts)


def detect_format(file: Path) -> str:
    """Return the format of a file, by the ending of its name, else by its first bytes."""
    name = file.with_suffix("") if file.suffix in COMPRESSIONS else file
    if name.suffix.lower() in ENDINGS:
        return ENDINGS[name.suffix.lower()]
    with translate_read_errors(str(file)), file.open("rb") as stream:
        if stream.read(4) == b"PAR1":
            return PARQUET
    raise DataError(f"cannot tell the format of {file}: name it with one of {', '.join(ENDINGS)}")


def read_pipe(path: Path) -> tuple[bytes, str]:
    """Return all that a pipe holds, decompressed, and its format, which its first bytes tell."""
    content = sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
    compression = _find_start(content, COMPRESSED_STARTS)
    if compression is not None:
        with pa.CompressedInputStream(pa.BufferReader(content), compression) as stream:
            content = stream.read()
    known = _find_start(content, FORMAT_STARTS)
    return content, known or (JSONL if content.lstrip()[:1] in (b"{", b"[") else CSV)


def _find_start(content: bytes, starts: dict[bytes, str]) -> str | None:
    return next((found for start, found in starts.items() if content.startswith(start)), None)


@contextmanager
def translate_read_errors(origin: str, columns: Sequence[str] = ()) -> Iterator[None]:
    """Turn what Arrow and the file system raise into a message about the data; `columns` are those of a csv file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = first_line(error)
        prefix = ARROW_PREFIX.match(message)
        if prefix:
            origin, message = prefix["file"], message[prefix.end() :]
        raise UnreadableError(f"cannot read {origin}: {_suggest_column_type(message, columns)}") from error


def _suggest_column_type(message: str, columns: Sequence[str]) -> str:
    """Return a message about a value that does not fit its column with the option that helps."""
    bad = BAD_CSV_VALUE.search(message)
    if bad is not None and int(bad["at"]) < len(columns):
        name, kind = columns[int(bad["at"])], bad["type"]
        if "UTF8" in bad["problem"]:
            return (
                f"column {name!r} holds text that is not in UTF-8"
                "\n  iconv -f latin1 -t utf-8 FILE | motet ... --events - reads a file in Latin 1"
            )
        message = f"column {name!r} was taken for {kind}, which later values are not ({bad['problem']})"
        if DECIMAL_COMMA.search(bad["problem"]):
            return f"{message}\n  {_suggest_decimals(name)}"
        return f"{message}\n  --column-type {shlex.quote(name)}=text (in Python column_types=) reads it as text"
    bad = BAD_JSON_VALUE.search(message)
    if bad is not None:
        name = bad["path"].replace("/", ".")
        problem = bad["problem"] if bad[2] is None else f"has an item that {bad['problem']}"
        return (
            f"column {name!r} {problem}: its values are not of one type"
            f"\n  --column-type {shlex.quote(name)}=text (in Python column_types=) reads all of them as text"
        )
    return message


def _suggest_decimals(name: str) -> str:
    column = name if name.isidentifier() else f'\\"{name}\\"'
    number = f"CAST(replace({column}, ',', '.') AS DOUBLE)"
    return f'--column-type {shlex.quote(name)}=text --select "* REPLACE ({number} AS {column})" reads decimal commas'


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message that has text."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def must_read_whole(files: Sequence[Path], kind: str, options: Options) -> bool:
    """Return whether text files are read as a whole: one that is small, what datasets cannot decompress, and json that
    has to be rewritten as lines.
    """
    if kind not in TEXTS:
        return False
    if any(file.suffix == ".zst" for file in files) or (kind == JSONL and options.column_types):
        return True
    if kind == JSONL and any(read_start(file).lstrip()[:1] == b"[" for file in files):
        return True
    return len(files) == 1 and files[0].stat().st_size < BLOCK_BYTES


def read_start(file: Path) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with pa.input_stream(str(file), compression="detect") as stream:
        return bytes(stream.read(1 << 16))


def require_delimiter(file: Path | bytes, kind: str, options: Options) -> None:
    """Raise if a csv file has another delimiter than a comma, and none is given."""
    if kind != CSV or options.delimiter is not None:
        return
    line = (read_start(file) if isinstance(file, Path) else file[: 1 << 16]).split(b"\n", 1)[0].decode(errors="replace")
    found = [delimiter for delimiter in OTHER_DELIMITERS if delimiter in line]
    if "," not in line and found:
        written = OTHER_DELIMITERS[max(found, key=line.count)]
        origin = str(file) if isinstance(file, Path) else "standard input"
        raise DataError(
            f"the first line of {origin} has no comma: {line.strip()[:80]!r}\n"
            f"  --delimiter {written} (in Python delimiter=) names what separates its columns"
        )


def require_options_apply(kind: str, options: Options) -> None:
    """Raise if an option for text files is given for others."""
    for name, given, kinds in (
        ("delimiter", options.delimiter, (CSV, TSV)),
        ("header", options.header, (CSV, TSV)),
        ("column_types", options.column_types, TEXTS),
    ):
        if given and kind not in kinds:
            what = "events that are no text files" if kind == OTHER else f"{kind} files"
            hint = "; select can cast a column: --select 'CAST(x AS DOUBLE) AS x'" if name == "column_types" else ""
            raise DataError(f"{name} does not apply to {what}{hint}")


def read_text(file: Path | bytes, kind: str, options: Options, schema: pa.Schema | None = None) -> pa.Table:
    """Read text as a whole; its columns are those of the schema, where one is given."""
    with _open_text(file) as stream:
        if kind == JSONL:
            return _read_json(stream, options, schema, str(file) if isinstance(file, Path) else "standard input")
        import pyarrow.csv as csv

        read, parse, convert = _make_csv_options(kind, options)
        read.use_threads = False
        if schema is not None:
            convert.column_types = schema
        return csv.read_csv(stream, read, parse, convert)


def _open_text(file: Path | bytes) -> pa.NativeFile:
    return pa.input_stream(str(file), compression="detect") if isinstance(file, Path) else pa.BufferReader(file)


def _read_json(stream: pa.NativeFile, options: Options, schema: pa.Schema | None, origin: str) -> pa.Table:
    import pyarrow.json as json

    from motet.io.json_rewriting import rewrite_as_lines

    content = stream.read()
    if options.column_types or content.lstrip()[:1] == b"[":
        content = rewrite_as_lines(content, options.column_types or {}, origin)
    parse = None
    if schema is not None:
        parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    if not content.strip():
        return (schema or pa.schema([])).empty_table()
    return json.read_json(pa.BufferReader(content), json.ReadOptions(block_size=BLOCK_BYTES), parse)


def read_binary(content: bytes, kind: str) -> pa.Table:
    """Read parquet or Arrow data from memory."""
    if kind == PARQUET:
        import pyarrow.parquet as pq

        return pq.read_table(pa.BufferReader(content))
    opened = pa.ipc.open_file if content.startswith(b"ARROW1") else pa.ipc.open_stream
    return opened(pa.BufferReader(content)).read_all()


def _make_csv_options(kind: str, options: Options) -> tuple[csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions]:
    import pyarrow.csv as csv

    # NA unquoted is null, "NA" in quotes is a text; a type is a text even where it looks like a number.
    types = {options.type: pa.string()}
    types |= {name: COLUMN_TYPES[each] for name, each in (options.column_types or {}).items()}
    convert = csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=types)
    parse = csv.ParseOptions(newlines_in_values=True, delimiter=options.delimiter or ("\t" if kind == TSV else ","))
    read = csv.ReadOptions(block_size=BLOCK_BYTES, column_names=list(options.header) or None)
    return read, parse, convert


def make_dataset_factory(base: str, files: Sequence[Path], kind: str, options: Options) -> ds.FileSystemDatasetFactory:
    """Make what reads these files; folders named `column=value` add that column, as Spark writes them."""
    import pyarrow.dataset as ds
    import pyarrow.fs as fs

    settings = ds.FileSystemFactoryOptions(
        partition_base_dir=base, partitioning=ds.HivePartitioning.discover(infer_dictionary=False)
    )
    local: Any = fs.LocalFileSystem()
    return ds.FileSystemDatasetFactory(local, list(map(str, files)), _make_format(kind, options), settings)


def _make_format(kind: str, options: Options) -> ds.FileFormat:
    import pyarrow.dataset as ds
    import pyarrow.json as json

    if kind == PARQUET:
        return ds.ParquetFileFormat()
    if kind == ARROW:
        return ds.IpcFileFormat()
    if kind == JSONL:
        return ds.JsonFileFormat(read_options=json.ReadOptions(block_size=BLOCK_BYTES))
    read, parse, convert = _make_csv_options(kind, options)
    return ds.CsvFileFormat(parse_options=parse, read_options=read, convert_options=convert)


def unify_schema(factory: ds.FileSystemDatasetFactory, origin: str) -> pa.Schema:
    """Return the columns of all files: a column that one of them lacks is null there."""
    try:
        schema = factory.inspect(promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise DataError(f"the files in {origin} disagree: {first_line(error)}") from error
    return require_distinct_names(schema, origin)


def require_distinct_names(schema: pa.Schema, origin: str) -> pa.Schema:
    """Raise if two columns have one name; return the schema without metadata."""
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        hint = suggest_header(schema.names) or "rename all but one"
        raise DataError(f"{origin} has more than one column {twice[0]!r}: {hint}")
    return schema.remove_metadata()


def suggest_header(names: Sequence[str]) -> str:
    """Return how to name the columns of a csv file whose first line holds values; nothing where it holds names."""
    if not any(map(_is_value, names)):
        return ""
    shown = ",".join(["time", "type", *(f"c{at}" for at in range(3, len(names) + 1))][: len(names)])
    return f"--header {shlex.quote(shown)} (in Python header=) names the columns, if its first line holds values"


def _is_value(name: str) -> bool:
    """Return whether what should be a column's name is a number or a time."""
    return bool(re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?|\d{4}-\d\d-\d\d.*", name.strip()))


def require_typed_columns(schema: pa.Schema, options: Options, origin: str) -> None:
    """Raise if a type is given for a column that there is not."""
    names = [*schema.names, *(".".join(path) for path, _ in list_fields(schema))]
    require_columns(names, options.column_types or {}, origin)
