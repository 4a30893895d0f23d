"""The hands of a snapshot: the one piece of code that reads and writes a project's files.

Never imported: `snapshot_hands.py` runs its text in a process of its own, as the user who owns the
project, so nothing here needs or has a right of the harness. Whatever Python that user can reach
runs it: 3.8 and the standard library must do.

No link is followed below TOP: each directory on the way is opened by itself, with O_NOFOLLOW, from
the one before. On stderr goes one JSON list for each name, [name, state, why]; after the last one
["", "done", ""], or ["", "failed", why] where everything had to stop.

    look TOP               stdin: JSON, [[name, kind, mode, size, sha256], ...]
    keep TOP BYTES FILES   stdin: JSON, [name, ...]; stdout, a regular file: a tar of what fits
    put TOP NUMBERS        stdin: a tar; its members with these numbers ("0-4,7") are written
    remove TOP             stdin: JSON, [name, ...]
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import tarfile
from collections.abc import Iterator
from typing import IO

_CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """This one name cannot be done; the text says why."""


class Blocked(Refused):
    """What should be a directory on the way is something else now, such as a link."""


class Full(Exception):
    """Nothing more can be written at all."""


def say(name: str, state: str, why: str = "") -> None:
    sys.stderr.write(json.dumps([name, state, why]) + "\n")


class Tree:
    """A work tree, entered without following a link."""

    def __init__(self, top: str) -> None:
        self._top = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def place(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the directory that `name` is in, and the name's last part."""
        parts = name.split("/")
        # A planted .git/config would run code in the next git command of whoever owns the directory.
        if any(part in ("", ".", "..") or part.lower() == ".git" or "\0" in part for part in parts):
            raise Refused("no path within a work tree")
        folder = os.dup(self._top)
        try:
            for part in parts[:-1]:
                inner = _enter(folder, part, make)
                os.close(folder)
                folder = inner
            yield folder, parts[-1]
        finally:
            os.close(folder)

    def status(self, name: str) -> os.stat_result:
        with self.place(name) as (folder, last):
            return os.stat(last, dir_fd=folder, follow_symlinks=False)


def _enter(folder: int, part: str, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o777, dir_fd=folder)
    try:
        return os.open(part, _DIRECTORY, dir_fd=folder)
    except OSError as error:
        status = os.stat(part, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            raise
        raise Blocked(f"{part!r} on its way is no directory now") from error


def kind_of(mode: int) -> str:
    """`file` and `link` can be kept; the others are named and left alone."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a special file (a pipe, a socket or a device)"


# --- look ---------------------------------------------------------------------------------------


def look(top: str) -> None:
    """How each name stands against what was kept: absent, blocked, same, differs, or what it is."""
    tree = Tree(top)
    for name, *kept in json.load(sys.stdin.buffer):
        try:
            say(name, *_compare(tree, name, *kept))
        except FileNotFoundError:
            say(name, "absent")
        except Blocked as error:
            say(name, "blocked", str(error))
        except (OSError, Refused) as error:
            say(name, "other", _words(error))


def _compare(tree: Tree, name: str, kind: str, mode: int, size: int, sha256: str) -> tuple[str, str]:
    with tree.place(name) as (folder, last):
        status = os.stat(last, dir_fd=folder, follow_symlinks=False)
        now = kind_of(status.st_mode)
        if now not in ("file", "link"):
            return "other", f"{now} stands there now"
        if now != kind:
            return "differs", ""
        if now == "link":
            target = os.fsencode(os.readlink(last, dir_fd=folder))
            return ("same" if hashlib.sha256(target).hexdigest() == sha256 else "differs"), ""
        if (status.st_size, status.st_mode & 0o777) != (size, mode):
            return "differs", ""
        file = os.open(last, _READ, dir_fd=folder)
    try:
        digest = hashlib.sha256()
        while piece := os.read(file, _CHUNK):
            digest.update(piece)
    finally:
        os.close(file)
    return ("same" if digest.hexdigest() == sha256 else "differs"), ""


# --- keep ---------------------------------------------------------------------------------------


def keep(top: str, most_bytes: int, most_files: int) -> None:
    """Write what is there to the tar, the smallest first, so that one giant keeps out nothing else."""
    tree = Tree(top)
    archive = Archive(sys.stdout.fileno(), most_bytes)
    files = 0
    for name in _smallest_first(tree):
        try:
            if files == most_files:
                raise Refused(f"beyond the limit of {most_files} files")
            archive.add(tree, name)
        except (OSError, Refused) as error:
            say(name, "skipped", _words(error))
        else:
            files += 1
            say(name, "kept")
    archive.end()


def _smallest_first(tree: Tree) -> list[str]:
    sized = []
    for name in json.load(sys.stdin.buffer):
        try:
            status = tree.status(name)
        except (FileNotFoundError, Blocked):
            say(name, "absent")
        except (OSError, Refused) as error:
            say(name, "skipped", _words(error))
        else:
            if kind_of(status.st_mode) in ("file", "link"):
                sized.append((status.st_size, name))
            else:
                say(name, "skipped", kind_of(status.st_mode))
    return [name for _, name in sorted(sized)]


class Archive:
    """A tar on a descriptor, of which a member that goes wrong is taken back whole."""

    def __init__(self, descriptor: int, room: int) -> None:
        self._descriptor = descriptor
        self._room = room  # bytes of content that may still come
        self._end = 0

    def add(self, tree: Tree, name: str) -> None:
        """Add one file or link. Raises Refused and OSError, nothing added; Full."""
        with tree.place(name) as (folder, last):
            status = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                self._add_link(name, status, os.readlink(last, dir_fd=folder))
                return
            file = os.open(last, _READ, dir_fd=folder)
        try:
            self._add_file(name, file)
        except (OSError, Refused):
            self._take_back()
            raise
        finally:
            os.close(file)

    def end(self) -> None:
        self._write(bytes(2 * _BLOCK))

    def _add_link(self, name: str, status: os.stat_result, target: str) -> None:
        member = _member(name, status)
        member.type = tarfile.SYMTYPE
        member.linkname = target
        self._write(_header(member))
        self._end = os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def _add_file(self, name: str, file: int) -> None:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(kind_of(status.st_mode))
        if status.st_size > self._room:
            raise Refused(f"too large: {status.st_size} bytes, where {self._room} more would have fitted")
        member = _member(name, status)
        member.size = left = status.st_size
        self._write(_header(member))
        while left:
            piece = os.read(file, min(_CHUNK, left))
            if not piece:
                raise Refused("it became shorter while it was read")
            self._write(piece)
            left -= len(piece)
        self._write(bytes(-member.size % _BLOCK))
        self._room -= member.size
        self._end = os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def _take_back(self) -> None:
        os.ftruncate(self._descriptor, self._end)
        os.lseek(self._descriptor, self._end, os.SEEK_SET)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError as error:
                raise Full(f"the snapshot cannot be written: {_words(error)}") from error


def _member(name: str, status: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode = status.st_mode & 0o777  # what is laid over as another user must not become setuid
    member.uid, member.gid = status.st_uid, status.st_gid
    member.mtime = int(status.st_mtime)
    return member


def _header(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


# --- put and remove -----------------------------------------------------------------------------


def put(top: str, numbers: str) -> None:
    """Write these members of the tar, each in place of what stands there, in one step."""
    tree = Tree(top)
    wanted = _numbers(numbers)
    with tarfile.open(
        fileobj=sys.stdin.buffer, mode="r:", encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for number, member in enumerate(archive):
            if number in wanted:
                try:
                    _lay(tree, archive, member)
                except (OSError, Refused) as error:
                    say(member.name, "skipped", _words(error))
                else:
                    say(member.name, "done")


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _lay(tree: Tree, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    with tree.place(member.name, make=True) as (folder, last):
        temporary = f".harness-{os.urandom(8).hex()}"
        try:
            if member.issym():
                os.symlink(member.linkname, temporary, dir_fd=folder)
            else:
                _fill(folder, temporary, archive.extractfile(member), member)
            os.rename(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _fill(folder: int, name: str, content: IO[bytes] | None, member: tarfile.TarInfo) -> None:
    if content is None:
        raise Refused("the snapshot holds neither a file nor a link of that name")
    with open(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as file:
        while piece := content.read(_CHUNK):
            file.write(piece)
        file.flush()
        if file.tell() != member.size:
            raise Refused("the snapshot is cut short there")
        os.fchmod(file.fileno(), member.mode & 0o777)


def remove(top: str) -> None:
    """Delete these files and links; a directory never."""
    tree = Tree(top)
    for name in json.load(sys.stdin.buffer):
        try:
            with tree.place(name) as (folder, last):
                os.unlink(last, dir_fd=folder)
        except (FileNotFoundError, Blocked):
            say(name, "done")
        except (OSError, Refused) as error:
            say(name, "skipped", _words(error))
        else:
            say(name, "done")


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def main(verb: str, top: str, *numbers: str) -> None:
    try:
        if verb == "look":
            look(top)
        elif verb == "keep":
            keep(top, int(numbers[0]), int(numbers[1]))
        elif verb == "put":
            put(top, numbers[0])
        else:
            remove(top)
    except Full as error:
        say("", "failed", str(error))
    except tarfile.TarError as error:
        say("", "failed", f"the snapshot cannot be read: {error}")
    except OSError as error:
        say("", "failed", f"{top} cannot be worked on: {_words(error)}")
    else:
        say("", "done")


if __name__ == "__main__":
    main(*sys.argv[1:])
