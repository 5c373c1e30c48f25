"""What Spark cannot read of a checkpoint is named, also where Spark does not name it: no Spark is needed to tell."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from motet.errors import RunError
from motet.spark.damage import check_logs, explain_damage
from motet.spark.state_store import BucketStore, Head


@pytest.mark.parametrize(
    ("said", "file"),
    [
        (
            "Error reading delta file file:/data/state/state/0/1/7.changelog: not there",
            "/data/state/state/0/1/7.changelog",
        ),
        ("File does not exist: /data/state/offsets/3\n\tat org.apache", "/data/state/offsets/3"),
        ("Malformed log file, in '/data/state/commits/3'.", "/data/state/commits/3"),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\n\tat org.apache\n"
            "Caused by: java.io.EOFException: Stream ended prematurely\n\tat org.apache",
            "/data/state/state",
        ),
    ],
)
def test_what_spark_cannot_read_of_a_checkpoint_is_named(said: str, file: str) -> None:
    with pytest.raises(RunError) as refused, explain_damage("/data/state"):
        raise ValueError(said)
    assert f"the checkpoint is damaged, or a part of it is missing: {file} (" in str(refused.value)
    assert "new --checkpoint" in str(refused.value)
    assert ("(Stream ended prematurely)" in str(refused.value)) == ("Caused by" in said)
    with pytest.raises(ValueError, match="elsewhere"), explain_damage("/data/state"):
        raise ValueError("something elsewhere: /data/events/3")
    with pytest.raises(RunError, match="ours"), explain_damage("/data/state"):
        raise RunError("ours, of /data/state/x")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The files of a checkpoint as Spark writes them, but for what is in its state."""
    root = tmp_path / "checkpoint"
    for folder in ("offsets", "commits", "sources/0"):
        (root / folder).mkdir(parents=True)
        for number in range(7, 11):
            lines = ['{"batchWatermarkMs":0}', "-"] if folder == "offsets" else ['{"path":"a"}', '{"path":"b"}']
            (root / folder / str(number)).write_text("\n".join(["v1", *lines]))
    (root / "sources/0/9").rename(root / "sources/0/9.compact")
    (root / "metadata").write_text(json.dumps({"id": "1"}))
    for name in ("_metadata/v2/0", "_stateSchema/default/0_abc", "1/8.changelog", "1/SSTs/000008-abc.sst"):
        file = root / "state/0" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('v2\n{"operatorInfo":{}}')
    with zipfile.ZipFile(root / "state/0/1/9.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", "v1\n{}" * 100)
        archive.writestr("MANIFEST-000013", "more" * 100)
    return root


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        *((file, damage) for file in ("offsets/8", "commits/10", "sources/0/7", "sources/0/9.compact", "metadata")
          for damage in (cut, empty)),
        *((file, damage) for file in ("state/0/_metadata/v2/0", "state/0/1/9.zip") for damage in (cut, empty)),
        *((file, empty) for file in ("state/0/_stateSchema/default/0_abc", "state/0/1/8.changelog",
                                     "state/0/1/SSTs/000008-abc.sst")),
        ("offsets/8", Path.unlink),
        ("offsets/10", Path.unlink),  # there is a later commit
        ("commits/9", Path.unlink),
    ],
)  # fmt: skip
def test_a_damaged_file_that_spark_does_not_name_is_found(
    checkpoint: Path, file: str, damage: Callable[[Path], object]
) -> None:
    with pytest.raises(ValueError, match=r"^Unexpected end-of-input$"), explain_damage(str(checkpoint)):
        raise ValueError("Unexpected end-of-input")  # all files are whole: it is about something else
    damage(checkpoint / file)
    for name in (str(checkpoint), f"file://{checkpoint}/"):
        with pytest.raises(RunError) as refused, explain_damage(name):
            raise ValueError("Unexpected end-of-input")
        assert f"is missing: {checkpoint / file} (Unexpected end-of-input)" in str(refused.value)


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("block checksum mismatch in /tmp/StateStoreId(opId=0,partId=1,name=default)-a/000008.sst", "state/0/1"),
        ("[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] Checkpoint location is inconsistent", "metadata"),
        ("Query [id = 1] terminated with exception:  SQLSTATE: XXKST", "state/0/_stateSchema"),
        ("Query [id = 1] terminated with exception: No usable value for operatorPropertiesJson", "state/0/_metadata"),
    ],
)
def test_where_no_file_is_found_its_place_is_named(checkpoint: Path, said: str, place: str) -> None:
    with pytest.raises(RunError, match=f"is missing: {checkpoint}/{place} "), explain_damage(str(checkpoint)):
        raise ValueError(said)


def test_a_state_of_which_a_part_is_lost_is_refused_by_its_partition(checkpoint: Path) -> None:
    stored = {"head": Head("token", whole=4, changes=2), "log": [(b"whole",)]}
    handle: Any = SimpleNamespace(
        getValueState=lambda name, schema: SimpleNamespace(get=lambda: stored[name]),
        getListState=lambda name, schema: SimpleNamespace(get=lambda: iter(stored[name])),
    )
    store = BucketStore(handle)
    store.read_head()
    with pytest.raises(RunError, match=f"missing: {checkpoint}/state/0/2 "), explain_damage(str(checkpoint)):
        store.read_log(2)
    stored["log"] = [(b"whol",), (b"e!",)]
    assert store.read_log(2) == [b"whol", b"e!"]


def test_what_spark_calls_an_internal_error_is_not_called_so(checkpoint: Path) -> None:
    empty(checkpoint / "metadata")
    with pytest.raises(RunError, match=r"metadata \(Spark cannot read it\)"), explain_damage(str(checkpoint)):
        raise ValueError("[INTERNAL_ERROR] The phase planning failed with an internal error.")


@pytest.mark.parametrize("ending", ["", ".compact"])
def test_a_list_of_files_that_is_gone_is_named_before_they_are_read_again(checkpoint: Path, ending: str) -> None:
    check_logs(str(checkpoint))  # whose source has no such list
    (checkpoint / "offsets/10").write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":10}')
    file = checkpoint / "sources/0/10"
    file = file.rename(file.with_name(f"10{ending}"))
    check_logs(f"file://{checkpoint}")
    file.unlink()
    with pytest.raises(RunError, match=f"is missing: {checkpoint}/sources/0/10 "):
        check_logs(f"file://{checkpoint}")
    check_logs(str(checkpoint / "new"))


def write_checksum(file: Path) -> None:
    """Write the checksum of a file as Hadoop does: a head, the size of a chunk, and the sum of each."""
    content = file.read_bytes()
    sums = [zlib.crc32(content[at : at + 16]).to_bytes(4) for at in range(0, len(content), 16)]
    file.with_name(f".{file.name}.crc").write_bytes(b"".join([b"crc\0", (16).to_bytes(4), *sums]))


@pytest.mark.parametrize(
    "name", ["offsets/10", "commits/8", "sources/0/7", "sources/0/9.compact", "metadata", "state/0/_metadata/v2/0"]
)
def test_a_letter_that_was_changed_is_found_by_the_checksum(checkpoint: Path, name: str) -> None:
    for file in [each for each in checkpoint.glob("**/*") if each.is_file()]:
        write_checksum(file)
    check_logs(f"file://{checkpoint}")
    file = checkpoint / name
    changed = bytearray(file.read_bytes())
    changed[len(changed) // 2] ^= 0x55
    file.write_bytes(changed)
    with pytest.raises(
        RunError, match=rf"is missing: {file} \(its checksum is not that of its content\): bring it back"
    ):
        check_logs(f"file://{checkpoint}")


def test_a_checksum_alone_tells_of_a_file_that_was_removed(checkpoint: Path) -> None:
    for number in (7, 10):
        write_checksum(checkpoint / f"commits/{number}")
    (checkpoint / "commits/7").unlink()
    check_logs(str(checkpoint))  # as after a process that was killed while it deleted the oldest
    (checkpoint / "commits/10").unlink()
    with pytest.raises(RunError, match=rf"is missing: {checkpoint}/commits/10 \(its checksum is there\)"):
        check_logs(str(checkpoint))


def test_a_checkpoint_that_has_just_begun_is_not_to_blame(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no Java"), explain_damage(str(tmp_path / "new")):
        raise ValueError("no Java")
