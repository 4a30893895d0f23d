"""What each source says: the file, the environment, the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from watcher.config import files
from watcher.config.errors import ConfigError
from watcher.config.files import Document
from watcher.config.schema import sections, table
from watcher.config.values import Given, checked, error, unknown


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """All that `load` was given, so that `reload` can ask again."""

    project: str
    environ: Mapping[str, str]
    overrides: Mapping[str, object]
    config_file: Path | None
    cwd: Path
    system_dir: Path


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """The project PROJECT stands for, and its file."""

    project: Given
    document: Document | None
    warnings: tuple[str, ...] = ()


def locate(sources: Sources) -> Located:
    """Find the project and its configuration; a path may have none, a NAME must have one."""
    if not sources.project or "\0" in sources.project:
        raise ConfigError("PROJECT must be a path or a NAME", where="command line", usage=True)
    if files.names_a_path(sources.project, sources.cwd):
        return _by_path(sources, sources.cwd / sources.project)
    places = files.directories(sources.environ, sources.system_dir)
    path = _explicit(sources) or files.by_name(sources.project, places)
    document = files.read(path)
    declared = _declared(document)
    if declared is None:
        raise ConfigError('it names no project; add project = "/path/to/it"', where=str(path), key="project")
    return Located(project=declared, document=document)


def from_file(document: Document) -> Iterator[tuple[str, Given]]:
    """The file's values by dotted key. Unknown keys are refused."""
    for name, value in document.data.items():
        given = _in(document, value)
        if name not in sections():
            if name not in table():
                raise unknown(name, given, (name,))
            yield name, given
        elif isinstance(value, dict):
            yield from _section(document, name, value)
        else:
            raise error(name, given, f"{name} must be a section: begin a line with [{name}]")


def from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    """The values of the reference's own variables (H 14.3). Empty counts as unset, as it did there."""
    for key, entry in table().items():
        value = environ.get(entry.row.env, "") if entry.row.env else ""
        if value:
            yield key, Given(value=value, origin=f"environment {entry.row.env}", usage=True)


def from_command_line(overrides: Mapping[str, object]) -> Iterator[tuple[str, Given]]:
    """The values of options; None is an option not given."""
    for key, value in overrides.items():
        if value is None:
            continue
        plain = os.fspath(value) if isinstance(value, os.PathLike) else value
        given = Given(value=plain, origin="command line", usage=True)
        if key not in table() or key == "project":
            raise unknown(key, given, (key,))
        yield key, given


def _by_path(sources: Sources, project: Path) -> Located:
    places = files.directories(sources.environ, sources.system_dir)
    path = _explicit(sources)
    warnings: tuple[str, ...] = ()
    if path is None:
        path, warnings = files.by_project(project, places)
    given = Given(value=str(project), origin="command line", usage=True)
    namesake = files.namesake(sources.project, places)
    if namesake not in {None, path}:
        warnings = (*warnings, f"{sources.project!r} is the directory {project} here; {namesake} is not used")
    if path is None:
        return Located(project=given, document=None, warnings=warnings)
    document = files.read(path)
    declared = _declared(document)
    if declared and os.path.realpath(str(declared.value)) != os.path.realpath(project):
        message = f"it configures {declared.value}, not {project}: give that path, or another file"
        raise error("project", declared, message)
    return Located(project=given, document=document, warnings=warnings)


def _explicit(sources: Sources) -> Path | None:
    return sources.cwd / sources.config_file if sources.config_file else None


def _declared(document: Document) -> Given | None:
    if "project" not in document.data:
        return None
    given = _in(document, document.data["project"])
    return given if checked(table()["project"], given) else None


def _section(document: Document, name: str, values: dict[str, object]) -> Iterator[tuple[str, Given]]:
    for part, value in values.items():
        given = _in(document, value)
        if f"{name}.{part}" not in table():
            raise unknown(f"{name}.{part}", given, (name, part))
        yield f"{name}.{part}", given


def _in(document: Document, value: object) -> Given:
    return Given(value=value, origin=str(document.path), text=document.text)
