"""Find the files at a path, detect their format and open them with Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from motet.errors import DataError, UnreadableError, did_you_mean

if TYPE_CHECKING:
    import pyarrow.csv as csv
    import pyarrow.dataset as ds

PARQUET, CSV, JSONL = "parquet", "csv", "json lines"

# Ending of a file's name -> its format. Text may be compressed: `.csv.gz`, `.jsonl.zst` and so on.
ENDINGS = {".parquet": PARQUET, ".pq": PARQUET, ".csv": CSV, ".jsonl": JSONL, ".ndjson": JSONL, ".json": JSONL}
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")

# The types of a text file's columns are inferred from its first block.
BLOCK_BYTES = 1 << 23

ARROW_PREFIX = re.compile(r"^.*input source '(?P<file>[^']*)': (Invalid: )?")


def find_files(path: Path) -> tuple[list[Path], str]:
    """Return the event files at a path, sorted, and their one format; hidden files and Spark's markers are skipped."""
    if not path.exists():
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings) or ""
        raise DataError(f"no file or folder {path}" + (f"; {hint}" if hint.startswith("did you mean") else ""))
    if path.is_file():
        return [path], detect_format(path)
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and not _is_hidden(file.relative_to(path))]
    if not files:
        raise DataError(f"folder {path} holds no event files (looked for {', '.join(ENDINGS)})")
    example = {detect_format(file): file.name for file in files}
    if len(example) > 1:
        shown = ", ".join(f"{name} is {kind}" for kind, name in example.items())
        raise DataError(f"folder {path} mixes formats: {shown}; keep one format to a folder")
    return files, next(iter(example))


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


@contextmanager
def translate_read_errors(origin: str) -> Iterator[None]:
    """Turn what Arrow and the file system raise into a message about the data."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = first_line(error)
        prefix = ARROW_PREFIX.match(message)
        if prefix:
            origin, message = prefix["file"], message[prefix.end() :]
        raise UnreadableError(f"cannot read {origin}: {message}") from error


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def is_small_text(files: list[Path], kind: str) -> bool:
    """Return whether events are in one text file of a single block, which is read as a whole."""
    return kind != PARQUET and len(files) == 1 and files[0].stat().st_size < BLOCK_BYTES


def read_text(file: Path | pa.NativeFile, kind: str, type: str, schema: pa.Schema | None = None) -> pa.Table:
    """Read a text file as a whole; its columns are those of the schema, where one is given."""
    if kind == JSONL:
        import pyarrow.json as json

        parse = (
            None if schema is None else json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        )
        return json.read_json(file, json.ReadOptions(block_size=BLOCK_BYTES), parse)
    import pyarrow.csv as csv

    parse, convert = _csv_options(type)
    if schema is not None:
        convert.column_types = schema
    return csv.read_csv(file, csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES), parse, convert)


def _csv_options(type: str) -> tuple[csv.ParseOptions, csv.ConvertOptions]:
    import pyarrow.csv as csv

    # NA unquoted is null, "NA" in quotes is a text; a type is a text even where it looks like a number.
    convert = csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, column_types={type: pa.string()}
    )
    return csv.ParseOptions(newlines_in_values=True), convert


def make_dataset_factory(path: Path, files: list[Path], kind: str, type: str) -> ds.FileSystemDatasetFactory:
    """Make what reads these files; folders named `column=value` add that column, as Spark writes them."""
    import pyarrow.dataset as ds
    import pyarrow.fs as fs

    base = path if path.is_dir() else path.parent
    options = ds.FileSystemFactoryOptions(
        partition_base_dir=str(base), partitioning=ds.HivePartitioning.discover(infer_dictionary=False)
    )
    return ds.FileSystemDatasetFactory(fs.LocalFileSystem(), list(map(str, files)), _make_format(kind, type), options)


def _make_format(kind: str, type: str) -> ds.FileFormat:
    import pyarrow.csv as csv
    import pyarrow.dataset as ds
    import pyarrow.json as json

    if kind == PARQUET:
        return ds.ParquetFileFormat()
    if kind == JSONL:
        return ds.JsonFileFormat(read_options=json.ReadOptions(block_size=BLOCK_BYTES))
    parse, convert = _csv_options(type)
    return ds.CsvFileFormat(
        parse_options=parse, read_options=csv.ReadOptions(block_size=BLOCK_BYTES), convert_options=convert
    )


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
        raise DataError(f"{origin} has more than one column {twice[0]!r}: rename all but one")
    return schema.remove_metadata()
