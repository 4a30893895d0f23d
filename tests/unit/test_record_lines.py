"""Files of JSON lines: whole lines only, torn ones kept, ends read without reading the whole."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher.record.documents import dump
from watcher.record.faults import FailingDisk
from watcher.record.files import Disk, RecordError
from watcher.record.lines import BLOCK, Damaged, Line, Lines, backwards, iterate, last, tail

DOCUMENTS: list[dict[str, Any]] = [{"poke": 1}, {"poke": 2, "text": "a\nb é 漢 \U0001f319"}, {"poke": 3}]


class Counting(io.FileIO):
    """Counts the bytes that are read."""

    total = 0

    def read(self, size: int | None = -1, /) -> bytes:
        got = super().read(-1 if size is None else size) or b""
        Counting.total += len(got)
        return got


def counted(path: str | os.PathLike[str]) -> BinaryIO:
    return Counting(path, "rb")


def written(place: Path, documents: list[dict[str, Any]]) -> list[int]:
    with Lines(Disk(), place) as lines:
        return [lines.append(document) for document in documents]


def documents(seen: list[Line | Damaged]) -> list[Any]:
    return [line.document if isinstance(line, Line) else "damaged" for line in seen]


def test_lines_come_back_in_order_with_the_offsets_they_were_given(tmp_path: Path) -> None:
    offsets = written(tmp_path / "history.jsonl", DOCUMENTS)
    seen = list(iterate(tmp_path / "history.jsonl"))
    assert documents(seen) == DOCUMENTS
    assert [line.offset for line in seen] == offsets
    assert seen[-1].end == (tmp_path / "history.jsonl").stat().st_size
    assert (tmp_path / "history.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_line_is_one_write_and_on_the_device_before_append_returns(tmp_path: Path) -> None:
    disk = FailingDisk()
    with Lines(disk, tmp_path / "history.jsonl") as lines:
        disk.calls.clear()
        lines.append({"text": "x" * 200_000})
        assert disk.calls == ["write", "fsync"]
        lines.append({"poke": 2}, sync=False)
        lines.append({"poke": 3}, sync=False)
        lines.sync()
        assert disk.calls == ["write", "fsync", "write", "write", "fsync"]


def test_a_reader_of_a_missing_file_sees_nothing(tmp_path: Path) -> None:
    assert list(iterate(tmp_path / "none")) == tail(tmp_path / "none", 3) == []
    assert last(tmp_path / "none") is None


def test_a_file_that_cannot_be_read_is_a_message(tmp_path: Path) -> None:
    for read in (lambda: list(iterate(tmp_path)), lambda: tail(tmp_path, 1)):
        with pytest.raises(RecordError, match=r"cannot read .*EISDIR"):
            read()


@settings(deadline=None)
@given(
    sizes=st.lists(st.one_of(st.integers(0, 40), st.integers(BLOCK - 40, BLOCK + 5)), max_size=12),
    count=st.integers(0, 14),
    torn=st.binary(max_size=30).filter(lambda data: b"\n" not in data),
)
def test_every_way_of_reading_agrees(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], count: int, torn: bytes
) -> None:
    place = tmp_path_factory.mktemp("lines") / "history.jsonl"
    expected = [{"n": number, "text": "x" * size} for number, size in enumerate(sizes)]
    place.write_bytes(b"".join(dump(document) + b"\n" for document in expected) + torn)
    forwards = list(iterate(place))
    assert documents(forwards) == expected
    assert [(line.offset, line.end) for line in backwards(place)] == [
        (line.offset, line.end) for line in reversed(forwards)
    ]
    assert documents(tail(place, count)) == expected[max(0, len(expected) - count) :]
    for number, line in enumerate(forwards):
        assert documents(list(iterate(place, line.offset))) == expected[number:]
        assert documents(list(iterate(place, line.end))) == expected[number + 1 :]


@pytest.mark.parametrize("size", [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_lines_on_the_edges_of_blocks_are_read_whole(tmp_path: Path, size: int, count: int) -> None:
    """Lines of every length around a block, counted with the newline, where JSON can be that short."""
    place = tmp_path / "history.jsonl"
    text = (b'{"t":"' + b"x" * (size - 9) + b'"}' if size >= 9 else b"{}"[: size - 1].ljust(size - 1)) + b"\n"
    assert len(text) == size
    place.write_bytes(text * count)
    assert [line.offset for line in iterate(place)] == [number * size for number in range(count)]
    assert [(line.offset, line.end) for line in tail(place, 9)] == [
        (number * size, (number + 1) * size) for number in range(count)
    ]
    for start in range(1, min(size, 4)):
        assert [line.offset for line in iterate(place, start)] == [
            number * size for number in range(1, count)
        ]


def test_a_start_inside_a_line_begins_at_the_next(tmp_path: Path) -> None:
    first, second, third = written(tmp_path / "history.jsonl", DOCUMENTS)
    for start in range(first + 1, second + 1):
        assert documents(list(iterate(tmp_path / "history.jsonl", start))) == DOCUMENTS[1:]
    assert documents(list(iterate(tmp_path / "history.jsonl", third + 1))) == []
    assert documents(list(iterate(tmp_path / "history.jsonl", 10**9))) == []


def test_the_end_of_twenty_megabytes_is_read_in_a_few_blocks(tmp_path: Path) -> None:
    place = tmp_path / "history.jsonl"
    line = dump({"poke": 0, "text": "x" * 950})
    with place.open("wb") as file:
        for number in range(20_000):
            file.write(line.replace(b'"poke":0', b'"poke":%d' % number) + b"\n")
        file.write(b'{"poke":20000,"te')
    size = place.stat().st_size
    assert size > 19_000_000
    for read, blocks in (
        (lambda: tail(place, 10, counted), 2),
        (lambda: last(place, opened=counted), 2),
        (lambda: last(place, lambda document: document["poke"] == 19_900, counted), 3),
        (lambda: list(iterate(place, size - 5_000, counted)), 4),
    ):
        Counting.total = 0
        assert read()
        assert 0 < Counting.total <= blocks * BLOCK + 5_000


def test_opening_twenty_megabytes_for_appending_reads_only_their_end(tmp_path: Path) -> None:
    place = tmp_path / "history.jsonl"
    place.write_bytes((dump({"text": "x" * 950}) + b"\n") * 20_000)
    before = read_by_this_process()
    with Lines(Disk(), place) as lines:
        lines.append({"poke": 1})
    assert read_by_this_process() - before <= 3 * BLOCK


def read_by_this_process() -> int:
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("this kernel does not count reads")
    return int(next(row.split()[1] for row in counters.read_text().splitlines() if row.startswith("rchar")))


LAST = dump({"poke": 3, "text": "é漢"}) + b"\n"


@pytest.mark.parametrize("length", range(1, len(LAST)))
def test_a_last_line_torn_at_any_byte_is_set_aside_kept_and_told(tmp_path: Path, length: int) -> None:
    """Cut just before its newline it is whole JSON and torn all the same: its append never returned."""
    place = tmp_path / "history.jsonl"
    written(place, DOCUMENTS[:2])
    whole = place.read_bytes()
    place.write_bytes(whole + LAST[:length])
    assert documents(list(iterate(place))) == documents(tail(place, 5)) == DOCUMENTS[:2]
    with Lines(Disk(), place) as lines:
        assert "history.jsonl.torn-1" in lines.note
        assert f"{length} bytes from byte {len(whole)}" in lines.note
        assert place.read_bytes() == whole
        lines.append({"poke": 4})
    assert (tmp_path / "history.jsonl.torn-1").read_bytes() == LAST[:length]
    assert documents(list(iterate(place))) == [*DOCUMENTS[:2], {"poke": 4}]


@pytest.mark.parametrize(
    "bad",
    [b"\0\0\0\0\n", b"{\n", b"\n", b"12\n", b"[]\n", b'"text"\n', b"\xff\xfe\n", b'{"a":1}}\n', b"{}\0\n"],
    ids=repr,
)
def test_a_last_line_that_is_no_json_object_is_set_aside_too(tmp_path: Path, bad: bytes) -> None:
    place = tmp_path / "history.jsonl"
    written(place, DOCUMENTS)
    whole = place.read_bytes()
    place.write_bytes(whole + bad)
    assert isinstance(tail(place, 1)[0], Damaged)
    with Lines(Disk(), place) as lines:
        assert lines.note
    assert place.read_bytes() == whole
    assert (tmp_path / "history.jsonl.torn-1").read_bytes() == bad


@pytest.mark.parametrize("content", [b"", b"\0" * 200_000, b'{"po', b"x" * 200_000])
def test_a_file_that_is_nothing_but_torn_becomes_an_empty_one(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "history.jsonl"
    place.write_bytes(content)
    with Lines(Disk(), place) as lines:
        assert bool(lines.note) == bool(content)
        assert lines.append({"poke": 1}) == 0
    assert documents(list(iterate(place))) == [{"poke": 1}]
    assert not content or (tmp_path / "history.jsonl.torn-1").read_bytes() == content


def test_torn_lines_of_several_crashes_are_all_kept(tmp_path: Path) -> None:
    place = tmp_path / "history.jsonl"
    for number in (1, 2, 3):
        with place.open("ab") as file:
            file.write(b"torn %d" % number)
        Lines(Disk(), place).close()
    assert [(tmp_path / f"history.jsonl.torn-{n}").read_bytes() for n in (1, 2, 3)] == [
        b"torn 1",
        b"torn 2",
        b"torn 3",
    ]


def test_nothing_is_told_where_nothing_was_torn(tmp_path: Path) -> None:
    for _ in range(2):
        with Lines(Disk(), tmp_path / "history.jsonl") as lines:
            lines.append({"poke": 1})
            assert lines.note == ""
    assert os.listdir(tmp_path) == ["history.jsonl"]


def test_a_damaged_line_in_the_middle_is_shown_with_its_place_and_hides_nothing(tmp_path: Path) -> None:
    place = tmp_path / "history.jsonl"
    _, second, third = written(place, DOCUMENTS)
    content = bytearray(place.read_bytes())
    content[second + 3 : second + 9] = b"\0" * 6
    place.write_bytes(content)
    Lines(Disk(), place).close()  # a middle line is never moved
    assert documents(list(iterate(place))) == [DOCUMENTS[0], "damaged", DOCUMENTS[2]]
    damaged = list(iterate(place))[1]
    assert isinstance(damaged, Damaged)
    assert (damaged.number, damaged.offset, damaged.end) == (2, second, third)
    assert damaged.problem
    assert documents(tail(place, 2)) == ["damaged", DOCUMENTS[2]]
    assert last(place, lambda document: document["poke"] < 3) == next(iterate(place))


def test_a_line_that_is_taken_back_while_it_is_read_is_not_mixed_with_the_next(tmp_path: Path) -> None:
    place = tmp_path / "history.jsonl"
    (offset,) = written(place, [{"n": 1}])
    whole = place.read_bytes()
    place.write_bytes(whole + b'{"n":2,"t":"' + b"x" * (2 * BLOCK))  # in the middle of an append
    reading = iterate(place)
    first = next(reading)
    os.truncate(place, len(whole))  # which did not fit on the disk
    written(place, [{"n": 3, "t": "y" * (BLOCK + 100)}])
    assert list(reading) == []
    assert [line.offset for line in iterate(place, first.end)] == [len(whole)]
    assert first.offset == offset


@pytest.mark.parametrize("half", [False, True], ids=["nothing written", "half written"])
def test_a_line_that_did_not_fit_leaves_the_file_as_it_was_and_the_next_one_may_fit(
    tmp_path: Path, half: bool
) -> None:
    place = tmp_path / "history.jsonl"
    with Lines(FailingDisk("write", 2, errno.ENOSPC, half=half), place) as lines:
        lines.append({"poke": 1})
        whole = place.read_bytes()
        with pytest.raises(RecordError, match=r"the disk is full .*The line is not recorded"):
            lines.append({"poke": 2})
        assert place.read_bytes() == whole
        lines.append({"poke": 3})
        assert lines.note == ""
    assert documents(list(iterate(place))) == [{"poke": 1}, {"poke": 3}]


def test_half_a_line_that_could_not_even_be_cut_off_is_set_aside_by_the_next_append(tmp_path: Path) -> None:
    class Stuck(FailingDisk):
        def truncate(self, descriptor: int, size: int) -> None:
            if self._seen == 2:
                raise OSError(errno.EIO, "stuck")
            super().truncate(descriptor, size)

    place = tmp_path / "history.jsonl"
    with Lines(Stuck("write", 2, errno.EIO, half=True), place) as lines:
        lines.append({"poke": 1})
        with pytest.raises(RecordError):
            lines.append({"poke": 2})
        assert not place.read_bytes().endswith(b"\n")
        lines.append({"poke": 3})
        assert "torn-1" in lines.note
    assert documents(list(iterate(place))) == [{"poke": 1}, {"poke": 3}]


def test_an_append_after_another_writer_died_in_the_middle_does_not_glue_two_lines(tmp_path: Path) -> None:
    place = tmp_path / "answers.jsonl"
    with Lines(Disk(), place) as ours:
        ours.append({"by": "us"})
        with place.open("ab") as dying:
            dying.write(b'{"by":"them","te')
        ours.append({"by": "us again"})
        assert "torn-1" in ours.note
    assert documents(list(iterate(place))) == [{"by": "us"}, {"by": "us again"}]


WRITER = """
    import os, sys
    from watcher.record.files import Disk
    from watcher.record.lines import Lines
    class Slow(Disk):
        def _write(self, descriptor, data):
            return super()._write(descriptor, data[:7])  # every line in many writes
    with Lines(Slow(), sys.argv[1]) as lines:
        for number in range(300):
            offset = lines.append({"by": os.getpid(), "n": number, "text": "x" * (number % 90)}, sync=False)
            assert os.pread(lines._file.descriptor, 6, offset) == b'{"by":'
        assert lines.note == "", lines.note
"""


def test_several_writers_and_a_reader_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Lines arrive in many short writes, so that every reader meets half-written ones."""
    place = tmp_path / "answers.jsonl"
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(place)]
    writers = [subprocess.Popen(command, env=environment) for _ in range(3)]
    looks, followed, position = 0, [], 0
    while any(writer.poll() is None for writer in writers):
        for line in iterate(place, position):
            assert isinstance(line, Line)
            followed.append(line.document)
            position = line.end
        assert all(isinstance(line, Line) for line in tail(place, 5))
        looks += 1
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    followed += documents(list(iterate(place, position)))
    assert followed == documents(list(iterate(place)))
    for writer in writers:
        assert [doc["n"] for doc in followed if doc["by"] == writer.pid] == list(range(300))
    assert looks > 1
    assert os.listdir(tmp_path) == ["answers.jsonl"]


def test_a_line_that_cannot_be_written_as_json_leaves_no_trace(tmp_path: Path) -> None:
    with Lines(Disk(), tmp_path / "history.jsonl") as lines:
        with pytest.raises(TypeError):
            lines.append({"poke": object()})
        lines.append({"poke": 1})
    assert json.loads((tmp_path / "history.jsonl").read_text()) == {"poke": 1}
