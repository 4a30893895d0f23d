"""Which file configures a project, and what it says."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from watcher.config.errors import ConfigError
from watcher.config.rules import absolute

SYSTEM_DIR = Path("/etc/harness")
BYTES_LIMIT = 1_000_000  # no configuration is longer; a wrong file may be
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"

_PROJECT_LINE = r"""(?m)^[ \t]*project[ \t]*=[ \t]*["'](.+?)["']"""
_PLACE = r"(?s)(.*) \(at (?:line (\d+), column (\d+)|end of document)\)"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A file as read."""

    path: Path
    text: str
    data: dict[str, object]


def directories(environ: Mapping[str, str], system_dir: Path = SYSTEM_DIR) -> tuple[Path, ...]:
    """Where configurations live, the winning place first: the user's own, for root the system's."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: relative ones are ignored
        base = os.path.join(environ.get("HOME") or _home(), ".config")
    if not os.path.isabs(base):
        return (system_dir,)
    own = Path(base, "harness")
    return (system_dir, own) if os.geteuid() == 0 else (own, system_dir)


def known_names(environ: Mapping[str, str], *, system_dir: Path = SYSTEM_DIR) -> list[str]:
    """Every NAME that has a file, sorted."""
    return sorted(_files(directories(environ, system_dir)))


def names_a_path(project: str, cwd: Path) -> bool:
    """PROJECT is a path when it holds a slash, is `.` or `..`, or names a directory here; else a NAME."""
    return "/" in project or project in {".", ".."} or os.path.isdir(cwd / project)


def by_name(name: str, places: Sequence[Path]) -> Path:
    """The file of a NAME."""
    if not re.fullmatch(NAME, name):
        raise ConfigError(
            f"{name!r} is neither a directory here nor a name: give the project's path or a name of letters, "
            "digits, '.', '_' and '-'",
            where="command line",
            usage=True,
        )
    for place in places:
        if os.path.lexists(path := place / f"{name}.toml"):
            return path
    files = _files(places)
    known = f"the known names are {', '.join(sorted(files))}" if files else "no project is configured yet"
    looked = " and ".join(map(str, places))
    raise ConfigError(
        f"{name!r} is no directory here, and no configuration has that name: {known} "
        f"(looked for NAME.toml in {looked}); for a directory elsewhere give its path"
    )


def namesake(project: str, places: Sequence[Path]) -> Path | None:
    """The file that has this NAME, if any, whatever it configures."""
    return _files(places).get(project)


def by_project(project: Path, places: Sequence[Path]) -> tuple[Path | None, tuple[str, ...]]:
    """The file whose `project` is this directory, if any, and warnings of files that could not be asked.

    The first place that has one wins, as it does with names; two in one place are refused.
    """
    wanted = os.path.realpath(project)
    found: list[Path] = []
    warnings: list[str] = []
    for path in _files(places).values():
        try:
            if os.path.realpath(_declared_project(path)) == wanted:
                found.append(path)
        except ConfigError as error:
            warnings.append(f"{error}; it was passed over, though it may be meant for {project}")
    if not found:
        return None, tuple(warnings)
    found = [path for path in found if path.parent == found[0].parent]
    if len(found) > 1:
        raise ConfigError(
            f"{' and '.join(map(str, found))} both configure {wanted}: remove one, or change its `project`"
        )
    return found[0], ()


def read(path: Path) -> Document:
    """The file's text and values. Does not ask who may write it: trust.py does."""
    text = _text(path, _bytes(path))
    return Document(path=path, text=text, data=_parse(path, text))


def line_of(text: str, key: Sequence[str | int]) -> int | None:
    """The line on which a key of a valid TOML text is set, from 1; None where it cannot be told.

    The parser itself is the judge: it is the first line with which a readable beginning holds the key.
    """
    import tomllib

    lines = text.split("\n")
    last = next(str(part) for part in reversed(key) if isinstance(part, str))
    mentions = [number for number, line in enumerate(lines, 1) if last in line]
    for number in mentions[:20]:  # bounds, so that a huge file costs its line number and not minutes
        for end in range(number, min(number + 200, len(lines) + 1)):
            try:
                beginning = tomllib.loads("\n".join(lines[:end]))
            except ValueError:
                continue  # in the middle of a value
            if _holds(beginning, key):
                return number
            break
    return None


def _holds(value: Any, key: Sequence[str | int]) -> bool:
    try:
        for part in key:
            value = value[part]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _home() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a user without an entry, as in containers
        return ""


def _files(places: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for place in places:
        for path in _listing(place):
            if path.suffix == ".toml" and re.fullmatch(NAME, path.stem):
                found.setdefault(path.stem, path)
    return found


def _listing(place: Path) -> Iterator[Path]:
    try:
        yield from sorted(place.iterdir())
    except OSError:  # absent, or not ours to look into
        return


def _declared_project(path: Path) -> str:
    """What a file says of its project; a broken file is asked by its text, so that it is still found."""
    text = _text(path, _bytes(path))
    try:
        declared = _parse(path, text).get("project")
    except ConfigError:
        match = re.search(_PROJECT_LINE, text)
        if match is None:
            raise
        declared = match[1]
    if isinstance(declared, str) and declared and absolute(declared) is None:
        return declared
    raise ConfigError("it does not name a project by its absolute path", where=str(path), key="project")


def _bytes(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            _refuse_no_file(path, os.fstat(descriptor).st_mode)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(BYTES_LIMIT + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(f"the configuration cannot be read: {error.strerror}", where=str(path)) from error
    if len(content) > BYTES_LIMIT:
        raise ConfigError(f"this is longer than {BYTES_LIMIT} bytes: no configuration is", where=str(path))
    return content


def _refuse_no_file(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise ConfigError(f"this is {what}, and the configuration must be a file", where=str(path))


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"byte 0x{error.object[error.start]:02x} is not UTF-8: save the file as UTF-8",
            where=str(path),
            line=line,
        ) from error


def _parse(path: Path, text: str) -> dict[str, object]:
    import tomllib  # only where a file is read: it costs milliseconds

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError("this is nested too deeply", where=str(path)) from error
    except ValueError as error:  # TOMLDecodeError, and a number of more digits than Python reads
        place = re.fullmatch(_PLACE, str(error))
        reason, line, column = place.groups() if place else (str(error), None, None)
        at = f" at column {column}" if column else " at the end" if place else ""
        number = int(line) if line else text.count("\n") + 1 if place else None
        raise ConfigError(f"this is not valid TOML{at}: {reason}", where=str(path), line=number) from error
