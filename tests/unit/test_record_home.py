"""Where the state lies: found again after a reboot, out of everybody's reach, never mistaken for another."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from watcher.record.files import RecordError
from watcher.record.home import Home, HomeRefused, project_key

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "projects" / "My Project"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def home(project: Path, tmp_path: Path) -> Home:
    return Home.for_project(project, root=tmp_path / "state")


def test_a_path_a_symlink_and_a_relative_path_are_the_same_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    monkeypatch.chdir(project.parent)
    homes = [
        Home.for_project(path, root=tmp_path / "state")
        for path in (project, link, Path("My Project"), project / ".." / "My Project", Path(f"{project}/"))
    ]
    assert len({home.path for home in homes}) == 1
    assert homes[0].project == project


def test_the_key_is_readable_and_differs_for_every_path() -> None:
    paths = ["/srv/shop", "/srv/Shop", "/home/a/shop", "/srv/shop ", "/", "/srv/漢字", "/srv/" + "x" * 200]
    keys = [project_key(Path(path)) for path in paths]
    assert len(set(keys)) == len(paths)
    assert [key.rsplit("-", 1)[0] for key in keys] == [
        "shop", "shop", "shop", "shop", "root", "root", "x" * 40,
    ]  # fmt: skip
    assert keys[0] == "shop-e7c7ea0ba435"  # forever: a changed key would orphan every record


def test_a_path_that_is_no_utf8_has_a_key_too() -> None:
    assert project_key(Path(os.fsdecode(b"/srv/\xff\xfe"))) != project_key(
        Path(os.fsdecode(b"/srv/\xff\xfd"))
    )


@pytest.mark.parametrize(
    ("euid", "environ", "state", "work"),
    [
        (0, {}, "/var/lib/harness", "/var/lib/harness-work"),
        (0, {"XDG_STATE_HOME": "/x", "XDG_CACHE_HOME": "/y"}, "/var/lib/harness", "/var/lib/harness-work"),
        (7, {"XDG_STATE_HOME": "/x", "XDG_CACHE_HOME": "/y"}, "/x/harness", "/y/harness"),
        (7, {"HOME": "/home/ann"}, "/home/ann/.local/state/harness", "/home/ann/.cache/harness"),
        (7, {"HOME": "/h", "XDG_STATE_HOME": "rel"}, "/h/.local/state/harness", "/h/.cache/harness"),
        (7, {"HOME": "/h", "XDG_STATE_HOME": ""}, "/h/.local/state/harness", "/h/.cache/harness"),
    ],
    ids=["root", "root never follows XDG", "XDG", "home", "a relative XDG is ignored", "an empty one too"],
)
def test_the_roots_are_those_of_the_user(euid: int, environ: dict[str, str], state: str, work: str) -> None:
    home = Home.for_project(Path("/srv/shop"), environ=environ, euid=euid)
    assert (str(home.root), str(home.work_root)) == (state, work)
    assert home.path == home.root / home.key
    assert home.work == home.work_root / home.key


@pytest.mark.parametrize("place", ["/tmp/x", "/var/tmp", "/dev/shm/x", "/tmp/../tmp/x"])
def test_a_shared_directory_is_refused_unless_it_was_named_explicitly(place: str) -> None:
    with pytest.raises(HomeRefused, match="every user can write to"):
        Home.for_project(Path("/srv/shop"), environ={"XDG_STATE_HOME": place, "HOME": "/h"}, euid=7)
    assert Home.for_project(Path("/srv/shop"), root=Path(place), euid=7).root == Path(os.path.realpath(place))


def test_a_state_or_work_directory_inside_the_project_is_refused(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "outside"
    link.symlink_to(project)
    for place in (project, project / "deep" / "state", link / "state"):
        with pytest.raises(HomeRefused, match="inside the project"):
            Home.for_project(project, root=place)
        with pytest.raises(HomeRefused, match="inside the project"):
            Home.for_project(project, root=tmp_path / "state", work=place)
    with pytest.raises(HomeRefused, match="inside the project"):  # a home directory is no project
        Home.for_project(Path("/home/ann"), environ={"HOME": "/home/ann"}, euid=7)
    assert Home.for_project(project, root=project.with_name("My Project-state"))


def test_a_work_directory_inside_the_private_state_is_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(HomeRefused, match="cannot reach it"):
        Home.for_project(project, root=tmp_path / "state", work=tmp_path / "state" / "work")


def test_an_explicit_root_has_its_work_root_beside_it(home: Home, tmp_path: Path) -> None:
    assert home.work_root == tmp_path / "state-work"


def test_looking_makes_nothing(home: Home, tmp_path: Path) -> None:
    assert home.latest_run() is None
    assert home.identity_change() is None
    assert home.low_disk(0) is None
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "state-work").exists()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_state_is_private_and_the_work_passable_whatever_the_umask(
    project: Path, tmp_path: Path, umask: int
) -> None:
    home = Home.for_project(project, root=tmp_path / "a" / "state", work=tmp_path / "b" / "work")
    former = os.umask(umask)
    try:
        home.prepare()
        home.prepare()
    finally:
        os.umask(former)
    private = [
        home.root.parent,
        home.root,
        home.path,
        home.runs.path,
        home.snapshots,
        home.account("x").parent,
    ]
    for place in private:
        assert stat.S_IMODE(place.stat().st_mode) == 0o700, place
    for place in (home.work_root.parent, home.work_root, home.work):
        assert stat.S_IMODE(place.stat().st_mode) == 0o711, place


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o770, 0o777, 0o1777])
def test_a_state_directory_that_others_can_enter_is_refused_with_the_remedy(home: Home, mode: int) -> None:
    home.root.mkdir()
    home.root.chmod(mode)
    with pytest.raises(HomeRefused, match=f"has mode {mode:04o}.*chmod 0700 {home.root}"):
        home.prepare()
    assert stat.S_IMODE(home.root.stat().st_mode) == mode
    assert os.listdir(home.root) == []


@pytest.mark.parametrize(("mode", "accepted"), [(0o711, True), (0o755, True), (0o775, False), (0o733, False)])
def test_a_work_directory_that_others_can_change_is_refused(home: Home, mode: int, accepted: bool) -> None:
    home.work_root.mkdir()
    home.work_root.chmod(mode)
    if accepted:
        return home.prepare()
    with pytest.raises(HomeRefused, match="chmod 0711"):
        home.prepare()
    return None


def test_a_work_directory_that_a_killed_start_left_closed_is_opened(home: Home) -> None:
    home.work_root.mkdir(mode=0o700)
    home.prepare()
    assert stat.S_IMODE(home.work_root.stat().st_mode) == 0o711


@pytest.mark.root
@as_root
def test_a_state_directory_of_somebody_else_is_refused(home: Home) -> None:
    home.root.mkdir(mode=0o700)
    os.chown(home.root, 65534, 65534)
    with pytest.raises(HomeRefused, match="belongs to user 65534"):
        home.prepare()


def test_a_link_in_the_place_of_a_projects_state_is_refused(home: Home, tmp_path: Path) -> None:
    home.root.mkdir(mode=0o700)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    home.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordError, match="something of that name is there already"):
        home.prepare()
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_state_root_that_is_itself_a_link_is_followed_once(project: Path, tmp_path: Path) -> None:
    (tmp_path / "big disk").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to(tmp_path / "big disk")
    home = Home.for_project(project, root=tmp_path / "state")
    home.prepare()
    assert home.root == tmp_path / "big disk"


def test_a_file_in_the_place_of_the_state_is_a_message(home: Home) -> None:
    home.root.touch(mode=0o600)
    with pytest.raises(RecordError, match="something of that name is there already"):
        home.prepare()


def test_the_same_directory_is_no_news(home: Home) -> None:
    home.prepare()
    assert home.identity_change() is None
    home.remember_identity()
    assert home.identity_change() is None


def test_another_directory_under_the_same_path_is_reported_until_it_is_accepted(
    home: Home, project: Path
) -> None:
    home.prepare()
    home.remember_identity()
    project.rename(project.with_name("before"))
    project.mkdir()
    for _ in range(2):
        said = home.identity_change()
        assert said is not None
        assert "is another directory than when the harness last worked here" in said
        assert str(project) in said
    home.remember_identity()
    assert home.identity_change() is None


def test_a_changed_device_number_is_told_as_what_it_usually_is(home: Home, project: Path) -> None:
    home.prepare()
    home.remember_identity()
    known = home.path / "project.json"
    device = project.stat().st_dev
    known.write_text(known.read_text().replace(f'"device":{device}', f'"device":{device + 1}'))
    assert "after a reboot that is usual" in (home.identity_change() or "")


def test_a_moved_project_is_not_silently_a_new_one(home: Home, project: Path, tmp_path: Path) -> None:
    home.prepare()
    home.remember_identity()
    moved = project.rename(tmp_path / "moved")
    said = Home.for_project(moved, root=tmp_path / "state").identity_change()
    assert said is not None
    assert f"the harness knew as {project}" in said
    assert str(home.path) in said


def test_a_damaged_identity_is_told_and_never_taken_for_a_first_start(home: Home) -> None:
    home.prepare()
    for content in ("", "{", "{}", '{"path":"/x","device":1}'):
        (home.path / "project.json").write_text(content)
        assert "cannot be read" in (home.identity_change() or "")
    home.remember_identity()
    assert home.identity_change() is None


@pytest.mark.parametrize(
    ("name", "plain"),
    [("claude@agent", True), ("team-1.main", True), ("../../etc/passwd", False), ("", False), (".", False),
     ("a/b", False), ("x" * 300, False), ("ключ", False), ("\udc80", False), ("a\nb", False)],
    ids=repr,
)  # fmt: skip
def test_an_account_is_one_file_in_its_directory_whatever_its_name(
    home: Home, name: str, plain: bool
) -> None:
    home.prepare()
    place = home.account(name)
    assert place.parent == home.root / "accounts"
    assert (place.name == f"{name}.json") == plain
    home.disk.replace(place, b"{}")
    assert os.listdir(place.parent) == [place.name]


def test_two_accounts_never_share_a_file(home: Home) -> None:
    names = ["a/b", "a-b", "a b", "A/b", "", "account", "../a/b"]
    assert len({home.account(name) for name in names}) == len(names)


def test_too_little_room_is_a_sentence_with_the_numbers(home: Home) -> None:
    home.prepare()
    assert home.low_disk(0) is None
    said = home.low_disk(10**9)
    assert said is not None
    assert "MiB are free at" in said
    assert "the floor (min_free_mb) is 1000000000 MiB" in said
