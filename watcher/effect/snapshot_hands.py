"""Reaching into a project's work tree by another's hands: a child that runs as the project's user.

The work tree belongs to the agent, who may have put anything in the place of anything. What reads and
writes it (snapshot_child.py) therefore has the agent's rights, or in `--to DIR` those of the person
who asked; and what it says is believed no further than the agent would be.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from watcher.effect.snapshot_manifest import FILES, Entry, SnapshotError, shown
from watcher.process import Account, Command, End, ProcessError, run_tool, supervise
from watcher.record.files import Disk

_LOOK_S = 300.0  # a gigabyte read from a slow disk
_COPY_S = 900.0
_MOST_NOTES = 64 * 2**20  # twenty thousand names of the greatest length, escaped, are 500 MB; of usual, 3


class Note(NamedTuple):
    """What the child says of one name."""

    state: str
    why: str = ""


Notes = Mapping[str, Note]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """One work tree, reached as one user. Every call may raise SnapshotError, and leaves no process."""

    top: Path
    account: Account | None  # None: the user we are
    env: Mapping[str, str]

    def look(self, entries: Sequence[Entry]) -> Notes:
        """How each path stands now against its entry: absent, blocked, same, differs or other."""
        asked = [[e.path, e.kind.value, int(e.mode or "0", 8), e.size, e.sha256] for e in entries]
        return self._ask("look", json.dumps(asked))

    def keep(self, names: Iterable[str], folder: Path, disk: Disk, *, most: tuple[int, int]) -> Notes:
        """Copy what stands at these paths to the folder's tar, within `most` bytes and files.

        Raises RecordError.
        """
        request = folder / f"{FILES}.names.tmp"
        disk.replace(request, json.dumps(list(names)).encode("ascii"))
        words = tuple(str(number) for number in most)
        return self._copy(folder, disk, "keep", words, stdin=request, stdout=folder / FILES)

    def put(self, folder: Path, numbers: Iterable[int], disk: Disk) -> Notes:
        """Write these members of the folder's tar, counted from 0, into the work tree. Raises RecordError."""
        said = folder / f"{FILES}.said.tmp"
        return self._copy(folder, disk, "put", (ranges(numbers),), stdin=folder / FILES, stdout=said)

    def remove(self, names: Iterable[str]) -> Notes:
        """Delete these files and links."""
        return self._ask("remove", json.dumps(list(names)))

    def _ask(self, verb: str, request: str) -> Notes:
        """For what fits into memory both ways."""

        def run(argv: tuple[str, ...]) -> bytes:
            tool = run_tool(
                argv,
                cwd=Path("/"),
                env=self.env,
                account=self.account,
                timeout_s=_LOOK_S,
                input=request.encode("ascii"),
                max_output=_MOST_NOTES,
            )
            if tool.timed_out:
                raise SnapshotError(f"the work tree could not be read within {_LOOK_S:g} s")
            return tool.stderr

        return self._with_some_python(verb, (), run)

    def _copy(
        self, folder: Path, disk: Disk, verb: str, words: tuple[str, ...], *, stdin: Path, stdout: Path
    ) -> Notes:
        """For what does not: files of ours become the child's descriptors, and it opens none of them."""
        notes = folder / f"{FILES}.notes.tmp"

        def run(argv: tuple[str, ...]) -> bytes:
            finished = supervise(
                Command(
                    argv=argv,
                    cwd=Path("/"),
                    env=self.env,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=notes,
                    account=self.account,
                    timeout_s=_COPY_S,
                    marker=f"snapshot-{uuid.uuid4().hex}",
                )
            )
            if finished.end is End.NOT_STARTED:
                raise ProcessError(finished.error)
            if finished.end is End.DEADLINE:
                raise SnapshotError(f"the files could not be copied within {_COPY_S:g} s")
            with notes.open("rb") as file:
                return file.read(_MOST_NOTES)

        try:
            return self._with_some_python(verb, words, run)
        except OSError as error:
            raise SnapshotError(f"{folder} cannot be used: {error}") from error
        finally:
            disk.sweep(folder / FILES)

    def _with_some_python(
        self, verb: str, words: tuple[str, ...], run: Callable[[tuple[str, ...]], bytes]
    ) -> Notes:
        """The first interpreter that gets to the end: ours may lie where that user cannot reach it."""
        source = Path(__file__).with_name("snapshot_child.py").read_text(encoding="utf-8")
        why = []
        for python in pythons():
            try:
                said = run((python, "-I", "-S", "-c", source, verb, str(self.top), *words))
            except ProcessError as error:
                why.append(str(error))
                continue
            notes, complaint = heard(said)
            match notes.pop("", None):
                case Note(state="done"):
                    return notes
                case Note(why=reason):
                    raise SnapshotError(shown(reason))
            why.append(f"{python} did not get to the end: {complaint or 'it said nothing'}")
        user = f"the user {self.account.name}" if self.account else "us"
        raise SnapshotError(
            f"no Python could do it: {'; '.join(why)}. "
            f"If none is within reach of {user}, install python3 for all users."
        )


def pythons() -> tuple[str, ...]:
    """Where to look for an interpreter that another user can run: ours, the system's, the PATH's."""
    own = (os.path.realpath(sys.executable),) if sys.executable else ()
    return (*own, "/usr/bin/python3", "/usr/local/bin/python3", "python3")


def heard(said: bytes) -> tuple[dict[str, Note], str]:
    """The child's notes by name, and the last line that is none: an interpreter's complaint."""
    notes: dict[str, Note] = {}
    complaint = ""
    for line in said.decode("ascii", "replace").splitlines():
        try:
            name, state, why = json.loads(line)
            notes[str(name)] = Note(str(state), str(why))
        except (ValueError, TypeError, RecursionError):
            complaint = line.strip() or complaint
    return notes, "".join(c if c.isprintable() else "?" for c in complaint)[:200]


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as "0-4,7": the choice of files has to fit into one argument of 128 KiB."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in parts)
