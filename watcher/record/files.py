"""The one door through which durable bytes go to disk.

Every write of the record is a file replaced as a whole (`Disk.replace`), a line added to a file
that only grows (`Appender`), or a name made, moved or removed. Each can be cut short by kill -9
between any two system calls and leaves nothing that a reader could take for something else.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
import stat
from pathlib import Path

from watcher.record.appender import Appender
from watcher.record.error import RecordError as RecordError

Place = str | os.PathLike[str]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_GROW = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Survives(enum.Enum):
    """What a replaced file is proof against. Each step down saves flushes, where losing it costs nothing."""

    POWER_CUT = "power cut"  # the new content, for good
    POWER_CUT_OR_FORMER = "power cut, or the former content"  # whole, but possibly the content before
    KILL = "kill"  # of the process; a power cut may leave anything, so the reader must not need it


class Disk:
    """The system calls that make bytes durable, in one object that tests can make fail.

    Guarantee: after a failed or killed call the former content is there, or the new one, never a
    mixture. Limits: the filesystem must be one that honours fsync and renames atomically (the
    local ones do), and a drive that lies about its cache can lose what it confirmed.
    Every method raises RecordError.
    """

    def replace(
        self, path: Place, data: bytes, mode: int = 0o600, *, survives: Survives = Survives.POWER_CUT
    ) -> None:
        """Put `data` in place of the whole file, durable on return: the four steps of A, "Checkpointing"."""
        folder, name = os.path.split(os.fspath(path))
        # Beside the file, or the rename would be a copy. Named by chance: in a container a pid comes again.
        temporary = f"{name}.{os.urandom(4).hex()}.tmp"
        directory = self._open_directory(folder, path)
        try:
            try:
                self._write_new(temporary, directory, data, mode, flush=survives is not Survives.KILL)
                self._rename(temporary, name, directory)
            except BaseException as error:
                with contextlib.suppress(OSError):
                    self._unlink(temporary, directory)
                if isinstance(error, OSError):
                    left = "Its former content is untouched."
                    raise RecordError(path, "replace", error.errno, left) from error
                raise
            try:
                if survives is Survives.POWER_CUT:
                    self.fsync(directory)
            except OSError as error:
                left = "The new content is in place, but a power cut may bring the former back."
                raise RecordError(path, "replace", error.errno, left) from error
        finally:
            os.close(directory)

    def create(self, path: Place, mode: int = 0o600, *, sync: bool = True) -> int:
        """A writable descriptor on a file that must not exist yet; no link is followed.

        `sync=False` leaves the name's durability to a later `sync_directory`.
        """
        try:
            descriptor = self._open(os.fspath(path), _NEW, mode)
        except OSError as error:
            raise RecordError(path, "create", error.errno) from error
        try:
            if mode != 0o600:
                os.fchmod(descriptor, mode)  # the umask took bits that the caller asked for
            if sync:
                self.sync_directory(os.path.dirname(os.fspath(path)))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def grow(self, path: Place) -> Appender:
        """Open a file for appending, made with its name durable where it is missing; no link is followed."""
        name = os.fspath(path)
        try:
            try:
                return Appender(self, path, self._open(name, _GROW))
            except FileNotFoundError:
                appender = Appender(self, path, self._open(name, _GROW | os.O_CREAT))
        except OSError as error:
            raise RecordError(path, "open", error.errno) from error
        try:
            self.sync_directory(os.path.dirname(name))
        except BaseException:
            appender.close()
            raise
        return appender

    def make_dir(self, path: Place, mode: int = 0o700) -> bool:
        """Make one directory, its name durable; False where it is there already, and left as it is."""
        name = os.fspath(path)
        try:
            self._mkdir(name, mode)
            if mode != 0o700:
                os.chmod(name, mode)  # the umask took bits that the caller asked for
        except FileExistsError as error:
            if stat.S_ISDIR(os.lstat(name).st_mode):
                return False
            raise RecordError(path, "make the directory", error.errno) from error
        except OSError as error:
            raise RecordError(path, "make the directory", error.errno) from error
        self.sync_directory(os.path.dirname(name))
        return True

    def move(self, path: Place, new_name: str) -> Path:
        """Give a file or directory another name in its directory, durable on return; its new path."""
        folder, name = os.path.split(os.fspath(path))
        directory = self._open_directory(folder, path)
        try:
            self._rename(name, new_name, directory)
            self.fsync(directory)
        except OSError as error:
            raise RecordError(path, "rename", error.errno) from error
        finally:
            os.close(directory)
        return Path(folder, new_name)

    def set_aside(self, path: Place, kind: str) -> Path:
        """Move a file to `<name>.<kind>-N`, N the first that is free: kept, out of the way."""
        return self.move(path, free_name(path, kind).name)

    def sweep(self, path: Place) -> list[str]:
        """Remove what killed `replace` calls for this file left unfinished; the names removed.

        For the file's sole writer (under the lock): another writer's unfinished file would go too.
        """
        folder, name = os.path.split(os.fspath(path))
        try:
            entries = os.listdir(folder or ".")
            strays = [e for e in sorted(entries) if e.startswith(f"{name}.") and e.endswith(".tmp")]
            for stray in strays:
                self._unlink(os.path.join(folder, stray))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RecordError(path, "clean up beside", error.errno) from error
        return strays

    def again(self, old: Place, new: Place) -> bool:
        """Give a finished file a second name, replacing none; False where that cannot be done."""
        try:
            os.link(old, new, follow_symlinks=False)
        except OSError:
            return False
        return True

    def remove_tree(self, path: Place) -> None:
        """Delete a directory with all that is in it, following no link; a killed call leaves a part."""
        import shutil  # costs as much to import as the whole record, and only pruning needs it

        try:
            shutil.rmtree(path)
        except OSError as error:
            raise RecordError(path, "delete", error.errno) from error

    def sync_directory(self, folder: Place) -> None:
        """Make the names in a directory durable."""
        directory = self._open_directory(os.fspath(folder), folder)
        try:
            self.fsync(directory)
        except OSError as error:
            raise RecordError(folder, "write", error.errno) from error
        finally:
            os.close(directory)

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write every byte: the kernel may take fewer at a time. Raises OSError, some bytes written."""
        written = self._write(descriptor, data)
        while written < len(data):
            written += self._write(descriptor, memoryview(data)[written:])

    def _write_new(self, name: str, directory: int, data: bytes, mode: int, *, flush: bool) -> None:
        descriptor = self._open(name, _NEW, mode, directory)
        try:
            if mode != 0o600:
                os.fchmod(descriptor, mode)
            self.write_all(descriptor, data)
            if flush:
                self.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _open_directory(self, folder: str, wanted_for: Place) -> int:
        try:
            return self._open(folder or ".", _DIRECTORY)
        except OSError as error:
            raise RecordError(wanted_for, "write", error.errno) from error

    # The only place where these calls stand; a test's disk overrides them.

    def _open(self, path: str, flags: int, mode: int = 0o600, directory: int | None = None) -> int:
        return os.open(path, flags, mode, dir_fd=directory)

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def _rename(self, old: str, new: str, directory: int) -> None:
        os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)

    def _mkdir(self, path: str, mode: int) -> None:
        os.mkdir(path, mode)

    def _unlink(self, path: str, directory: int | None = None) -> None:
        os.unlink(path, dir_fd=directory)


def free_name(path: Place, kind: str) -> Path:
    """The first of `<name>.<kind>-1`, `-2`, ... that is not taken."""
    names = (f"{os.fspath(path)}.{kind}-{number}" for number in itertools.count(1))
    return Path(next(name for name in names if not os.path.lexists(name)))
