"""Explain what Spark says of a checkpoint that it cannot read: which file is damaged, and what to do."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from motet.errors import MotetError, RunError
from motet.io.formats import first_line
from motet.spark.state_store import LOST_PARTS

NEW_CHECKPOINT = "start with a new --checkpoint (in Python checkpoint=), where results begin anew"
# Folders of files with a line for the version and lines of JSON. Those of the first two are numbered without gaps.
NUMBERED = ("offsets", "commits")
CHECKSUM_HEAD = b"crc\0"  # then the size of a chunk, and the checksum of each
LOGS = (*NUMBERED, "sources", "state/*/_metadata")


def describe_damage(file: str | Path, why: str) -> RunError:
    """Return the error that names what is damaged."""
    return RunError(
        f"the checkpoint is damaged, or a part of it is missing: {file} ({why}): bring it back, or {NEW_CHECKPOINT}"
    )


@contextmanager
def explain_damage(checkpoint: str) -> Iterator[None]:
    """Raise what Spark says of a file of a checkpoint that it cannot read as what happened and what to do."""
    try:
        yield
    except MotetError:
        raise
    except Exception as error:
        text = "\n".join(filter(None, (str(error), str(getattr(error, "stackTrace", "")))))
        if re.search("No space left on device|Disk quota exceeded", text):
            raise RunError(
                "there is no space left on a device, of the checkpoint, of the results or of Spark's own files: "
                f"make room, and start again with --checkpoint {checkpoint}: the stream goes on where it was"
            ) from error
        file = find_named_file(text, checkpoint) or _find_damaged_file(checkpoint) or _find_partition(text, checkpoint)
        if file is None:
            raise
        causes = re.findall(r"^Caused by: [\w.$]+: (.+)$", text, re.MULTILINE)
        why = LOST_PARTS if LOST_PARTS in text else causes[-1] if causes else first_line(error)
        raise describe_damage(file, "Spark cannot read it" if "INTERNAL_ERROR" in why else why) from error


def check_logs(checkpoint: str) -> None:
    """Raise where logs of a local checkpoint are damaged; Spark writes checksums of them, but would go on with another
    text. O(bytes of the logs).
    """
    root = Path(_local_path(checkpoint))
    for file in (root / "metadata", *_list_logs(root)):
        if not _has_right_checksum(file):
            raise describe_damage(file, "its checksum is not that of its content")
    for folder in NUMBERED:
        oldest = min((int(file.name) for file in _list_numbered(root, f"{folder}/*")), default=0)
        for file in (checksum.with_name(checksum.stem[1:]) for checksum in sorted(root.glob(f"{folder}/.*.crc"))):
            # A process that is killed while it deletes old files may leave a checksum alone.
            if file.name.isdigit() and int(file.name) > oldest and not file.exists():
                raise describe_damage(file, "its checksum is there")
    _check_source_logs(root)


def _check_source_logs(root: Path) -> None:
    """Raise where the list of files that were read last is missing: Spark would read them again."""
    offsets = max(_list_numbered(root, "offsets/*"), key=lambda file: int(file.name), default=None)
    for at, line in enumerate([] if offsets is None else offsets.read_text(errors="replace").splitlines()[2:]):
        number = re.fullmatch(r'\{"logOffset":(\d+)\}', line)
        if number is not None:
            file = root / "sources" / str(at) / number[1]
            if not file.exists() and not file.with_name(f"{file.name}.compact").exists():
                raise describe_damage(file, "it lists files that were read")


def find_named_file(message: str, folder: str) -> str | None:
    """Return the first file or folder below a folder that a message of Spark names."""
    found = re.search(rf"{re.escape(_local_path(folder))}/[^\s,;'\"\])]+", message)
    return None if found is None else found[0].rstrip(".:")


def _find_partition(message: str, checkpoint: str) -> str | None:
    """Return the folder of the state that a message speaks of without its name."""
    state = f"{checkpoint.rstrip('/')}/state"
    place = re.search(r"StateStoreId\(opId=(\d+),partId=(\d+)", message)
    if place is not None:
        return f"{state}/{place[1]}/{place[2]}"
    if "No usable value for" in message:  # of a log whose words are others
        return f"{state}/0/_metadata"  # of the one operator that motet has
    if "MISSING_METADATA_FILE" in message:
        return f"{checkpoint.rstrip('/')}/metadata"
    if re.search(r"terminated with exception:\s+(at |SQLSTATE)", message):  # of a file that ends too early, no more
        return f"{state}/0/_stateSchema"
    return state if "CANNOT_LOAD_STATE_STORE" in message else None


def _local_path(folder: str) -> str:
    return re.sub("^file:/*", "/", folder).rstrip("/")


def _find_damaged_file(checkpoint: str) -> Path | None:
    """Return a file of a local checkpoint that is missing, empty or cut, where Spark does not name it."""
    root = Path(_local_path(checkpoint))
    metadata = root / "metadata"
    if metadata.exists() and not _is_log(metadata, versioned=False):
        return metadata
    for file in _list_logs(root):
        if not _is_log(file, versioned=True):
            return file
    offsets, commits = ({int(file.name) for file in _list_numbered(root, f"{folder}/*")} for folder in NUMBERED)
    for folder, numbers, others in (("offsets", offsets, commits), ("commits", commits, set())):
        known = numbers | others
        missing = set(range(min(known, default=0), max(known, default=-1) + 1)) - numbers
        if missing:
            return root / folder / str(min(missing))
    states = (file for file in sorted(root.glob("state/**/*")) if file.is_file() and not file.name.startswith("."))
    return next((file for file in states if not file.stat().st_size or not _is_whole(file)), None)


def _list_logs(root: Path) -> list[Path]:
    return [file for folder in LOGS for file in _list_numbered(root, f"{folder}/**/*")]


def _list_numbered(root: Path, pattern: str) -> list[Path]:
    return sorted(file for file in root.glob(pattern) if file.is_file() and file.stem.isdigit())


def _is_log(file: Path, *, versioned: bool) -> bool:
    """Return whether a file has a line for its version, if it is to have one, and lines of JSON."""
    try:
        lines = file.read_bytes().lstrip(b"\0").decode().splitlines()
        if versioned and not re.fullmatch(r"v\d+", lines.pop(0)):
            return False
        return bool(lines) and all(
            line == "-" or json.loads(line) is not None for line in lines
        )  # "-": a source without an offset
    except (OSError, ValueError, IndexError):
        return False


def _has_right_checksum(file: Path) -> bool:
    """Return whether a file is what the checksum beside it is of, which Hadoop wrote; also if there is none."""
    try:
        known, content = file.with_name(f".{file.name}.crc").read_bytes(), file.read_bytes()
    except OSError:
        return True
    head, size = known[:4], int.from_bytes(known[4:8])
    if head != CHECKSUM_HEAD or not size:
        return True
    chunks = (content[at : at + size] for at in range(0, len(content), size))
    return b"".join(zlib.crc32(chunk).to_bytes(4) for chunk in chunks) == known[8:]


def _is_whole(file: Path) -> bool:
    """Return whether an archive of the state can be read; of other files, which may be any, this is not known."""
    try:
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as archive:
                return archive.testzip() is None
        return True
    except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return False
