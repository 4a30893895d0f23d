"""Which records PROJECT stands for: a path, a NAME and a symlink lead to the same ones (DESIGN 6)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from watcher.config import ConfigError, known_names, load
from watcher.config.files import directories
from watcher.decision.endings import Exit
from watcher.look.terminal import CannotLook
from watcher.record.documents import load as load_document
from watcher.record.home import Home, HomeRefused
from watcher.record.runs import Run

NOWHERE = Path(os.devnull)  # no project, and as a directory one in which no NAME can be taken for a path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One project's records, and the little of its configuration that looking needs."""

    home: Home
    name: str = ""  # the configuration's NAME, "" without one
    agent_user: str = ""  # "": the harness's own
    sandboxed: bool = False  # the agent runs in a sandbox
    trouble: str = ""  # what is wrong with the configuration; looking goes on without it


def find(project: str, *, environ: Mapping[str, str], cwd: Path, config_file: Path | None = None) -> Place:
    """The records of PROJECT, whether or not any exist. Raises ConfigError, HomeRefused.

    A mistake in the configuration is no reason to hide a running shift, or to refuse to stop it:
    it is told in `trouble`, and only what leaves the records' place open is raised.
    """
    try:
        loaded = load(project, environ=environ, overrides={}, config_file=config_file, cwd=cwd)
    except ConfigError as error:
        return _in_spite_of(error, project, environ, cwd, config_file)
    state = loaded.config.state
    return Place(
        home=_home(loaded.config.project, state.root, state.work_root, environ),
        name=_name(loaded.path, environ),
        agent_user=loaded.config.agent.user,
        sandboxed=loaded.config.agent.sandbox != "none",
    )


def every(environ: Mapping[str, str]) -> tuple[list[Place], list[str]]:
    """All projects of this user that have records, and what hindered looking for more.

    Those under the user's own state root, and the configured ones that keep theirs elsewhere.
    """
    problems: list[str] = []
    places: dict[Path, Place] = {}
    configured: set[Path] = set()
    for name in known_names(environ):
        try:
            place = find(name, environ=environ, cwd=NOWHERE)
        except (ConfigError, HomeRefused) as error:
            problems.append(str(error))
            continue
        configured.add(place.home.project)
        if os.path.lexists(place.home.path):
            places[place.home.path] = place
    root = Home.for_project(NOWHERE, environ=environ).root
    for home in _homes(root, environ):
        if home.path not in places and home.project not in configured:
            places[home.path] = Place(home=home)
    return [places[path] for path in sorted(places)], problems


def runs(place: Place) -> list[Run]:
    """The project's runs, oldest first; none where there are no records. Raises CannotLook."""
    home = place.home
    try:
        return home.runs.all()
    except OSError as error:
        raise unreadable(home, error) from error


def demand_known(place: Place) -> None:
    """Raise CannotLook where there is neither a project nor a record of one."""
    home = place.home
    if not os.path.isdir(home.project) and not os.path.lexists(home.path):
        raise CannotLook(f"there is no directory {home.project}, and no record of one. Is the path right?")


def some_run(place: Place, run: Run | None) -> Run:
    """`run`, or CannotLook where the project never had one."""
    if run is None:
        demand_known(place)
        raise CannotLook(
            f"{place.home.project} has had no run yet; one begins with: harness watch {place.home.project}"
        )
    return run


def run_named(place: Place, wanted: str) -> Run:
    """The run of that id, or of an id that begins so and is the only one. Raises CannotLook."""
    known = runs(place)
    found = [run for run in known if run.name == wanted] or [
        run for run in known if run.name.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} runs begin with {wanted!r}" if found else f"there is no run {wanted!r}"
    names = ", ".join(run.name for run in (found or known)[-5:]) or "none"
    raise CannotLook(f"{what} of {place.home.project}; the latest are: {names}", Exit.USAGE)


def unreadable(home: Home, error: OSError) -> CannotLook:
    """The sentence for records that this user cannot read: whose they are, and how to look all the same."""
    owner = _owner(home.path)
    if not isinstance(error, PermissionError) or not owner:
        return CannotLook(f"the records in {home.path} cannot be read: {error.strerror}")
    return CannotLook(
        f"the records in {home.path} belong to user {owner} and cannot be read as "
        f"{user_name(os.geteuid())}: use sudo -u {owner} harness ..."
    )


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # as in containers
        return f"#{uid}"


def _home(project: str, root: str, work: str, environ: Mapping[str, str]) -> Home:
    return Home.for_project(
        Path(project), Path(root) if root else None, Path(work) if work else None, environ=environ
    )


def _name(path: Path | None, environ: Mapping[str, str]) -> str:
    """What the project can be called on the command line; a file named by hand gives it no NAME."""
    return path.stem if path and path.parent in directories(environ) else ""


def _in_spite_of(
    error: ConfigError, project: str, environ: Mapping[str, str], cwd: Path, config_file: Path | None
) -> Place:
    """The records as far as a configuration with a mistake names their place; else raises the mistake.

    A file that others may write is not believed a word: it could name somebody else's records.
    """
    from watcher.config import files, trust
    from watcher.config.sources import Sources, locate

    sources = Sources(
        project=project,
        environ=environ,
        overrides={},
        config_file=config_file,
        cwd=cwd,
        system_dir=files.SYSTEM_DIR,
    )
    try:
        located = locate(sources)
    except ConfigError:
        return _unconfigured(error, project, environ, cwd)
    where = str(located.project.value)
    data: Mapping[str, object] = {}
    if located.document:
        trust.refuse_what_others_write(located.document.path, where)
        data = located.document.data
    root, work = (_word(data, "state", key) for key in ("root", "work_root"))
    if any(place and not os.path.isabs(place) for place in (root, work)):
        raise error
    return Place(
        home=_home(where, root, work, environ),
        name=_name(located.document.path if located.document else None, environ),
        agent_user=_word(data, "agent", "user"),
        sandboxed=_word(data, "agent", "sandbox") not in ("", "none"),
        trouble=str(error),
    )


def _unconfigured(error: ConfigError, project: str, environ: Mapping[str, str], cwd: Path) -> Place:
    """The usual place of a directory's records, where something is there; else raises the mistake."""
    from watcher.config import files

    if not project or "\0" in project or not files.names_a_path(project, cwd):
        raise error
    home = Home.for_project(cwd / project, environ=environ)
    if not os.path.lexists(home.path):
        raise error
    return Place(home=home, trouble=str(error))


def _word(data: Mapping[str, object], section: str, key: str) -> str:
    values = data.get(section)
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""


def _homes(root: Path, environ: Mapping[str, str]) -> Iterator[Home]:
    """The projects that left their path under `root`."""
    for file in root.glob("*/project.json"):
        try:
            path = load_document(file.read_bytes())["path"]
            home = Home.for_project(Path(path), environ=environ)
        except (OSError, ValueError, KeyError, TypeError, HomeRefused):
            continue  # its start says what is wrong with it
        if home.path == file.parent:
            yield home


def _owner(path: Path) -> str:
    """Who owns the first directory on the way to `path` that this user may not look into."""
    for place in (*reversed(path.parents), path):
        wanted = os.X_OK | (os.R_OK if place == path else 0)
        try:
            if not os.access(place, wanted):
                return user_name(os.stat(place).st_uid)
        except OSError:
            break
    return ""
