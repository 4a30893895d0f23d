"""What a sandbox shows and hides, as bubblewrap's own words: a later mount covers an earlier one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# In the home of a person: what logs in, or publishes, elsewhere in that person's name.
SECRETS = (
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".config/systemd/credentials"),
    *(".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/glab-cli"),
    *(".netrc", ".git-credentials", ".config/git/credentials", ".config/hub", ".npmrc", ".pypirc"),
    *(".cargo/credentials", ".cargo/credentials.toml"),
)
# And what is run, outside of any sandbox, when that person logs in, opens a shell or calls git.
STARTERS = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".config/fish", ".xprofile", ".xsessionrc"),
    *(".config/systemd", ".config/autostart", ".config/environment.d", ".local/share/systemd"),
    *(".gitconfig", ".config/git", ".vimrc", ".tmux.conf", ".local/bin", "bin"),
)
CREATED = (".ssh",)  # hidden even where it is missing: a file put there lets somebody in
# Of /run, which is full of sockets that obey: what name resolution needs, and some systems' programs.
OF_RUN = ("/run/systemd/resolve", "/run/resolvconf", "/run/current-system", "/run/booted-system")


class NoSandbox(Exception):
    """There is no sandbox, or not this one; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What a sandbox must know of the machine. All paths are absolute."""

    project: Path
    home: Path
    uid: int  # whom it runs as
    hidden: tuple[Path, ...] = ()  # the harness's own, and configured keys; what is missing is hidden too
    kept: tuple[Path, ...] = ()  # what is run or believed outside of it: read-only wherever it lies
    folders: tuple[Path, ...] = ()  # such directories, which are searched even if they come to be later
    network: bool = True


def words(places: Places) -> Iterator[str]:
    """Everything between bubblewrap's switches and the program. Raises NoSandbox."""
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    yield from _kernel(places)
    yield from _emptied(places)
    yield from _mounts(places)


def _kernel(places: Places) -> Iterator[str]:
    """Root needs no capability to write the kernel's own settings, one of which names a program to run."""
    if places.uid == 0:
        for name in ("/proc/sys", "/proc/sysrq-trigger"):
            yield from ("--ro-bind-try", name, name)


def _emptied(places: Places) -> Iterator[str]:
    """Private, empty, in memory: what all users share, and the sockets of this machine's services."""
    for name in ("/tmp", "/var/tmp", "/run"):  # noqa: S108 - to be replaced
        if os.path.isdir(name) and not os.path.islink(name):
            yield from ("--tmpfs", name)
    resolver = os.path.realpath("/etc/resolv.conf")
    for name in dict.fromkeys((*OF_RUN, resolver)):
        if name.startswith("/run/") and os.path.exists(name) and places.network:
            yield from ("--ro-bind-try", name, name)


def _mounts(places: Places) -> Iterator[str]:
    """Everything that is not as `/` is, outer directories before inner ones."""
    roots = tuple(_writable(places))
    hidden = tuple(place for place in _hidden(places) if os.path.exists(place))
    for place in hidden:
        if _holds_some(place, roots):
            raise NoSandbox(f"{place} is hidden from the agent, and the project or the agent's home is in it")
    kept = tuple(
        place for place in _kept(places) if _may_be_kept(place, roots) and not _inside(place, hidden)
    )
    _refuse_what_cannot_be_covered(places, roots)
    pins = {pin for place in (*roots, *kept, *hidden) for pin in _pins(place, roots)}
    plan: dict[Path, Callable[[Path], tuple[str, ...]]] = dict.fromkeys(
        (pin for pin in pins if not _inside(pin, (*kept, *hidden))), _as_it_is
    )
    plan |= dict.fromkeys(roots, _as_it_is) | dict.fromkeys(kept, _read_only) | dict.fromkeys(hidden, _gone)
    for place in sorted(plan, key=lambda place: (len(place.parts), place)):
        yield from plan[place](place)


def _refuse_what_cannot_be_covered(places: Places, roots: tuple[Path, ...]) -> None:
    """A link cannot be mounted over, so the agent could let it lead to something of its own making."""
    for place in (*places.hidden, *places.kept, *places.folders):
        for part in (place, *place.parents):
            if os.path.islink(part) and _inside(real(part.parent), roots):
                raise NoSandbox(
                    f"{part} is a link within the agent's reach, and the harness relies on {place}. "
                    "Put the directory itself there, or name another place"
                )
        if place not in places.hidden and _inside(real(place), roots[:1]):
            raise NoSandbox(f"{place} is in the project, where the agent could change it, and is run outside")


def _as_it_is(place: Path) -> tuple[str, ...]:
    return ("--bind", str(place), str(place))


def _read_only(place: Path) -> tuple[str, ...]:
    return ("--ro-bind", str(place), str(place))


def _gone(place: Path) -> tuple[str, ...]:
    if os.path.isdir(place):
        return ("--perms", "0700", "--tmpfs", str(place), "--remount-ro", str(place))
    return ("--ro-bind", os.devnull, str(place))


def _writable(places: Places) -> Iterator[Path]:
    """The home where it is one, the project, and the repository that the project is a part of."""
    project, home = real(places.project), real(places.home)
    yield project
    yield from _repository(project)
    if os.path.isdir(home) and home != Path("/") and home.stat().st_uid == places.uid:
        yield home


def _repository(project: Path) -> tuple[Path, ...]:
    """Where commits go if that is outside of the project. Raises NoSandbox.

    `.git` is the agent's to write, so a directory it points to is only believed when it points back.
    """
    entry = project / ".git"
    if os.path.isdir(entry):
        return ()  # a link to somewhere else stays read-only there
    if os.path.isfile(entry):
        return (_common(entry),)
    above = next((place / ".git" for place in project.parents if os.path.isdir(place / ".git")), None)
    return (real(above),) if above is not None else ()


def _common(entry: Path) -> Path:
    """The repository of a linked work tree, once its own note of that work tree was read."""
    try:
        folder = real(entry.parent / _line(entry).removeprefix("gitdir:").strip())
        back = real(folder / _line(folder / "gitdir"))
        common = real(folder / _line(folder / "commondir"))
    except (OSError, ValueError) as error:
        raise NoSandbox(f"{entry} leads to no work tree's place in a repository ({error})") from error
    if back != entry or folder.parent != common / "worktrees":
        raise NoSandbox(f"{entry} points to {folder}, which belongs to another work tree")
    return common


def _line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(4096).strip()


def _kept(places: Places) -> Iterator[Path]:
    """What can be read but not changed although it lies where the agent writes."""
    own = (places.home / name for name in STARTERS)
    yield from (
        place
        for place in dict.fromkeys(map(real, (*own, *places.kept, *places.folders)))
        if os.path.exists(place)
    )


def _may_be_kept(place: Path, roots: tuple[Path, ...]) -> bool:
    """Not what is read-only anyway, and not what the work itself is in."""
    return _inside(place, roots[1:]) and not _inside(place, roots[:1]) and not _holds_some(place, roots)


def _holds_some(place: Path, roots: tuple[Path, ...]) -> bool:
    return any(root.is_relative_to(place) for root in roots)


def _hidden(places: Places) -> Iterator[Path]:
    secrets = (places.home / name for name in SECRETS)
    yield from dict.fromkeys(map(real, (*secrets, *places.hidden)))


def _pins(place: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    """The directories between a writable one and what is mounted in it.

    As mounts of their own they cannot be renamed: else the agent would move the parent of a covered
    directory away and put one of its own making there, for the harness to find.
    """
    around = [root for root in roots if place.is_relative_to(root) and place != root]
    for up in place.parents:
        if any(up != root and up.is_relative_to(root) for root in around):
            yield up


def _inside(place: Path, writable: tuple[Path, ...]) -> bool:
    return any(place.is_relative_to(root) for root in writable)


def real(place: Path) -> Path:
    return Path(os.path.realpath(place))
