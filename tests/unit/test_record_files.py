"""The door to the disk: what stands in a file after a call that failed, and what the person reads."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from watcher.record.faults import Call, FailingDisk
from watcher.record.files import Disk, RecordError

OLD = b"the former content\n" * 40
NEW = b"the new content\n" * 70

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class TinyWrites(Disk):
    """The kernel takes three bytes at a time."""

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        return super()._write(descriptor, data[:3])


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_replaced_file_holds_exactly_the_new_bytes_and_is_ours_alone(tmp_path: Path) -> None:
    place = tmp_path / "state.json"
    Disk().replace(place, OLD)
    Disk().replace(place, NEW)
    assert place.read_bytes() == NEW
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert names(tmp_path) == ["state.json"]


def test_a_replace_is_a_bare_four_step_write_in_that_order_and_nothing_more(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.replace(tmp_path / "state.json", NEW)
    # the directory, the temporary file, its bytes, on the device, in place, the rename on the device
    assert disk.calls == ["open", "open", "write", "fsync", "rename", "fsync"]


def test_the_temporary_file_lies_beside_the_file_so_that_the_rename_is_no_copy(tmp_path: Path) -> None:
    class Watching(Disk):
        seen: list[str] = []  # noqa: RUF012 - one test, one list

        def _rename(self, old: str, new: str, directory: int) -> None:
            self.seen += [old, *names(tmp_path / "deep")]
            super()._rename(old, new, directory)

    (tmp_path / "deep").mkdir()
    disk = Watching()
    disk.replace(tmp_path / "deep" / "state.json", NEW)
    temporary, *beside = disk.seen
    assert beside == [temporary]
    assert temporary.startswith("state.json.")
    assert temporary.endswith(".tmp")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o711, 0o400])
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o177])
def test_the_mode_asked_for_is_the_mode_given_whatever_the_umask(
    tmp_path: Path, mode: int, umask: int
) -> None:
    former = os.umask(umask)
    try:
        Disk().replace(tmp_path / "replaced", NEW, mode)
        os.close(Disk().create(tmp_path / "created", mode))
    finally:
        os.umask(former)
    for name in ("replaced", "created"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_short_writes_lose_nothing(tmp_path: Path) -> None:
    TinyWrites().replace(tmp_path / "state.json", NEW)
    assert (tmp_path / "state.json").read_bytes() == NEW
    grown = TinyWrites().grow(tmp_path / "lines")
    with grown.alone() as size:
        assert grown.append(b"a longer line\n", size) == 14
    grown.close()
    assert (tmp_path / "lines").read_bytes() == b"a longer line\n"


FAULTS: list[tuple[Call, int, bool]] = [
    ("open", 1, False),  # the directory
    ("open", 2, False),  # the temporary file
    ("write", 1, False),
    ("write", 1, True),
    ("fsync", 1, False),
    ("rename", 1, False),
    ("fsync", 2, False),  # the directory's
]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize(("call", "nth", "half"), FAULTS, ids=lambda value: str(value))
@pytest.mark.parametrize("former", [OLD, None], ids=["over a file", "the first time"])
def test_a_failed_replace_leaves_the_old_or_the_new_file_and_no_litter(
    tmp_path: Path, call: Call, nth: int, half: bool, number: int, former: bytes | None
) -> None:
    place = tmp_path / "state.json"
    if former:
        Disk().replace(place, former)
    renamed = (call, nth) == ("fsync", 2)
    with pytest.raises(RecordError) as failed:
        FailingDisk(call, nth, number, half=half).replace(place, NEW)
    assert failed.value.errno == number
    assert (place.read_bytes() if place.exists() else None) == (NEW if renamed else former)
    assert names(tmp_path) == (["state.json"] if renamed or former else [])
    assert ("power cut" in str(failed.value)) == renamed


def test_a_disk_that_stays_full_still_gets_its_temporary_file_back(tmp_path: Path) -> None:
    disk = FailingDisk("write", 1, errno.ENOSPC, half=True, lasting=True)
    for _ in range(3):
        with pytest.raises(RecordError):
            disk.replace(tmp_path / "state.json", NEW)
    assert names(tmp_path) == []


def test_an_interrupt_in_the_middle_leaves_the_former_file_and_no_litter(tmp_path: Path) -> None:
    class Interrupted(Disk):
        def fsync(self, descriptor: int) -> None:
            raise KeyboardInterrupt

    place = tmp_path / "state.json"
    Disk().replace(place, OLD)
    with pytest.raises(KeyboardInterrupt):
        Interrupted().replace(place, NEW)
    assert place.read_bytes() == OLD
    assert names(tmp_path) == ["state.json"]


def test_no_descriptor_is_left_open_by_a_failure(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for call, nth, half in FAULTS:
        with pytest.raises(RecordError):
            FailingDisk(call, nth, half=half).replace(tmp_path / "state.json", NEW)
    for call in ("open", "fsync"):
        with pytest.raises(RecordError):
            FailingDisk(call, 1).create(tmp_path / f"created-{call}")
        with pytest.raises(RecordError):
            FailingDisk(call, 1).grow(tmp_path / f"grown-{call}")
    with pytest.raises(RecordError):
        FailingDisk("rename", 1).move(tmp_path / "state.json", "other")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("number", "happened", "advice"),
    [
        (errno.ENOSPC, "the disk is full (ENOSPC)", "Free some space"),
        (errno.EDQUOT, "the disk quota is used up (EDQUOT)", "quota"),
        (errno.EROFS, "the filesystem is read-only (EROFS)", "writable"),
        (errno.EIO, "input/output error (EIO)", "dmesg"),
        (errno.EACCES, "permission denied (EACCES)", "chown"),
        (errno.ENAMETOOLONG, "File name too long (ENAMETOOLONG)", "start again"),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
)
def test_the_message_says_what_happened_what_is_left_and_what_to_do(
    tmp_path: Path, number: int, happened: str, advice: str
) -> None:
    with pytest.raises(RecordError) as failed:
        FailingDisk("write", 1, number).replace(tmp_path / "state.json", NEW)
    said = str(failed.value)
    assert said.startswith(f"cannot replace {tmp_path / 'state.json'}: ")
    assert happened in said
    assert "Its former content is untouched." in said
    assert advice in said
    assert failed.value.path == tmp_path / "state.json"
    assert not isinstance(failed.value, OSError)


def test_a_directory_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"is gone \(ENOENT\)"):
        Disk().replace(tmp_path / "nowhere" / "state.json", NEW)


@pytest.mark.parametrize("target", ["exists", "missing"])
def test_a_planted_link_is_never_written_through(tmp_path: Path, target: str) -> None:
    victim = tmp_path / "victim"
    if target == "exists":
        victim.write_bytes(OLD)
    for place in ("created", "grown", "replaced"):
        (tmp_path / place).symlink_to(victim)
    with pytest.raises(RecordError, match="EEXIST"):
        Disk().create(tmp_path / "created")
    with pytest.raises(RecordError, match="a symbolic link stands in its place"):
        Disk().grow(tmp_path / "grown")
    Disk().replace(tmp_path / "replaced", NEW)  # the link itself is what is replaced
    assert (tmp_path / "replaced").read_bytes() == NEW
    assert not (tmp_path / "replaced").is_symlink()
    assert victim.exists() == (target == "exists")
    assert not victim.exists() or victim.read_bytes() == OLD


def test_create_refuses_a_file_that_is_there(tmp_path: Path) -> None:
    os.close(Disk().create(tmp_path / "once"))
    with pytest.raises(RecordError, match="EEXIST"):
        Disk().create(tmp_path / "once")


def test_a_created_name_is_durable_unless_that_is_left_to_later(tmp_path: Path) -> None:
    disk = FailingDisk()
    os.close(disk.create(tmp_path / "now"))
    assert disk.calls == ["open", "open", "fsync"]
    disk = FailingDisk()
    os.close(disk.create(tmp_path / "later", sync=False))
    assert disk.calls == ["open"]


def test_a_directory_is_made_once_private_and_durable(tmp_path: Path) -> None:
    disk = FailingDisk()
    assert disk.make_dir(tmp_path / "state")
    assert disk.calls == ["mkdir", "open", "fsync"]
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert not disk.make_dir(tmp_path / "state", 0o711)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="EEXIST"):
        disk.make_dir(tmp_path / "file")


def test_what_is_set_aside_gets_the_first_free_number_and_nothing_is_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "state.json"
    for number in (1, 2, 3):
        place.write_text(f"broken {number}")
        assert Disk().set_aside(place, "damaged") == tmp_path / f"state.json.damaged-{number}"
    assert [(tmp_path / f"state.json.damaged-{n}").read_text() for n in (1, 2, 3)] == [
        "broken 1",
        "broken 2",
        "broken 3",
    ]


def test_sweeping_takes_the_unfinished_files_of_that_file_only(tmp_path: Path) -> None:
    for name in (
        "a.json",
        "a.json.0f0f0f0f.tmp",
        "a.json.1.tmp",
        "a.json.damaged-1",
        "b.json.2.tmp",
        "a.tmp",
    ):
        (tmp_path / name).touch()
    assert Disk().sweep(tmp_path / "a.json") == ["a.json.0f0f0f0f.tmp", "a.json.1.tmp"]
    assert names(tmp_path) == ["a.json", "a.json.damaged-1", "a.tmp", "b.json.2.tmp"]
    assert Disk().sweep(tmp_path / "nowhere" / "a.json") == []


def test_a_deleted_file_takes_no_more_lines(tmp_path: Path) -> None:
    grown = Disk().grow(tmp_path / "lines")
    (tmp_path / "lines").unlink()
    with pytest.raises(RecordError, match="is gone"), grown.alone():
        pytest.fail("nothing may be written into a deleted file")
    grown.close()


def test_after_a_failed_fsync_nothing_is_taken_any_more(tmp_path: Path) -> None:
    grown = FailingDisk("fsync", 2, errno.EIO).grow(tmp_path / "lines")  # the first is the directory's
    with grown.alone() as size:
        grown.append(b"a line\n", size)
    with pytest.raises(RecordError, match="A power cut may take its last lines"):
        grown.sync()
    with pytest.raises(RecordError, match="EIO"):  # the disk would answer "fine" now, without the bytes
        grown.sync()
    with pytest.raises(RecordError, match="EIO"), grown.alone():
        pytest.fail("no line may follow one that is lost")
    grown.close()


READ_ONLY = """
    import os, sys
    from watcher.record.files import Disk, RecordError
    if os.geteuid() == 0:  # no mode keeps root out
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    for call in (lambda: Disk().replace(sys.argv[1] + "/state.json", b"new"),
                 lambda: Disk().create(sys.argv[1] + "/new"),
                 lambda: Disk().grow(sys.argv[1] + "/lines"),
                 lambda: Disk().make_dir(sys.argv[1] + "/dir")):
        try:
            call()
        except RecordError as error:
            print(error)
"""


def test_a_directory_without_write_permission_is_a_message() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to other users
        place = Path(name)
        (place / "state.json").write_bytes(OLD)
        os.chmod(place, 0o555)  # noqa: S103 - readable, and writable for nobody
        said = python(READ_ONLY, place).splitlines()
        os.chmod(place, 0o700)
        assert len(said) == 4
        assert all("permission denied (EACCES)" in line and "chown" in line for line in said)
        assert (place / "state.json").read_bytes() == OLD
        assert names(place) == ["state.json"]


FULL = """
    import errno, os, sys
    from watcher.record.checkpoint import load, save
    from watcher.record.files import Disk, RecordError
    from watcher.record.lines import Lines, iterate
    place, disk = sys.argv[1], Disk()
    save(disk, place + "/checkpoint.json", b'{"step": 1}')
    lines = Lines(disk, place + "/history.jsonl")
    lines.append({"poke": 1})
    filler = os.open(place + "/filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(filler, bytes(4096))
    except OSError as error:
        assert error.errno == errno.ENOSPC
    refused = 0
    for step in range(2, 60):  # the last page may hold a few more lines
        try:
            lines.append({"poke": step, "text": "x" * 1000})
        except RecordError as error:
            refused += 1
            assert "the disk is full (ENOSPC)" in str(error), error
            assert "The line is not recorded." in str(error), error
    assert refused > 50, refused
    try:
        save(disk, place + "/checkpoint.json", b'{"step": 2, "text": "%s"}' % (b"x" * 9000))
        raise AssertionError("a full disk took a checkpoint")
    except RecordError as error:
        assert error.errno == errno.ENOSPC
    assert load(place + "/checkpoint.json") == b'{"step": 1}'
    written = [line.document["poke"] for line in iterate(place + "/history.jsonl")]
    assert written == list(range(1, 60 - refused)), written
    assert open(place + "/history.jsonl", "rb").read().endswith(b"}\\n")
    assert sorted(os.listdir(place)) == ["checkpoint.json", "filler", "history.jsonl"]
    os.unlink(place + "/filler")
    os.close(filler)
    lines.append({"poke": 60})  # space is back: so is the record
    save(disk, place + "/checkpoint.json", b'{"step": 3}')
    assert load(place + "/checkpoint.json") == b'{"step": 3}'
    assert [line.document["poke"] for line in iterate(place + "/history.jsonl")] == [*written, 60]
    print("survived")
"""

READ_ONLY_MOUNT = """
    import errno, subprocess, sys
    from watcher.record.files import Disk, RecordError
    place, disk = sys.argv[1], Disk()
    disk.replace(place + "/state.json", b"old")
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    try:
        disk.replace(place + "/state.json", b"new")
    except RecordError as error:
        assert error.errno == errno.EROFS
        assert open(place + "/state.json").read() == "old"
        print(error)
"""

NO_INODES = """
    import os, sys
    from watcher.record.files import Disk, RecordError
    place, disk = sys.argv[1], Disk()
    disk.replace(place + "/state.json", b"old")
    try:
        for number in range(1000):
            os.close(os.open(f"{place}/filler-{number}", os.O_WRONLY | os.O_CREAT))
    except OSError:
        pass
    try:
        disk.replace(place + "/state.json", b"new")
    except RecordError as error:
        assert open(place + "/state.json").read() == "old"
        print(error)
"""


LOADED = """
    import sys
    import watcher.record.checkpoint, watcher.record.lines, watcher.record.lock
    print(*sys.modules)
"""


def test_loading_the_record_loads_nothing_slow(tmp_path: Path) -> None:
    slow = {"psutil", "structlog", "dateutil", "click", "shutil", "subprocess", "asyncio", "tempfile"}
    assert not slow & set(python(LOADED, tmp_path).split())


def python(code: str, place: Path, *before: str) -> str:
    """What a fresh interpreter prints for the code, given a path and started by the command `before`."""
    done = subprocess.run(
        [*before, sys.executable, "-c", textwrap.dedent(code), str(place)],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_a_small_filesystem(tmp_path: Path, options: str, code: str) -> str:
    """Run the code with the path of a fresh tmpfs that nobody else sees and that goes with its process."""
    script = f'mount -t tmpfs -o {options} small "{tmp_path}" && exec "$@"'
    return python(code, tmp_path, "unshare", "--mount", "sh", "-c", script, "sh")


@pytest.mark.root
@as_root
def test_a_really_full_disk_costs_no_byte_of_what_was_recorded(tmp_path: Path) -> None:
    assert on_a_small_filesystem(tmp_path, "size=1m", FULL) == "survived\n"


@pytest.mark.root
@as_root
def test_a_filesystem_that_went_read_only_is_a_message(tmp_path: Path) -> None:
    said = on_a_small_filesystem(tmp_path, "size=1m", READ_ONLY_MOUNT)
    assert "the filesystem is read-only (EROFS)" in said


@pytest.mark.root
@as_root
def test_a_filesystem_without_room_for_one_more_file_is_a_message(tmp_path: Path) -> None:
    said = on_a_small_filesystem(tmp_path, "size=1m,nr_inodes=20", NO_INODES)
    assert "the disk is full (ENOSPC)" in said
