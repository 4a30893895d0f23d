"""Claims about the configuration: found, trusted, checked, layered, shown."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watcher.config import (
    ConfigError,
    Loaded,
    defaults_table,
    known_names,
    load,
    reload,
    render_origin,
)
from watcher.config.files import directories, line_of
from watcher.config.rules import branch
from watcher.config.schema import table
from watcher.config.show import shown, value_of
from watcher.config.values import Given, checked

AS_ROOT = os.geteuid() == 0


class Box:
    """A home with a configuration directory, a system one and a project, all private."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = root / "etc"
        self.own = root / "config" / "harness"
        self.project = root / "project"
        for place in (self.system, self.own, self.project):
            place.mkdir(parents=True)
            place.chmod(0o755)  # whatever the umask
        self.environ = {"XDG_CONFIG_HOME": str(root / "config")}

    def write(self, text: str | bytes, name: str = "shop", place: Path | None = None) -> Path:
        path = (place or self.own) / f"{name}.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o600)
        return path

    def configure(self, text: str, name: str = "shop", place: Path | None = None) -> Path:
        """Write a file for the project; `text` begins on line 2."""
        return self.write(f"project = {shown(str(self.project))}\n{text}", name, place)

    def load(
        self,
        project: str = "shop",
        *,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, object] | None = None,
        config_file: Path | None = None,
    ) -> Loaded:
        return load(
            project,
            environ=self.environ | dict(env or {}),
            overrides=overrides or {},
            config_file=config_file,
            cwd=self.root,
            system_dir=self.system,
        )

    def refused(self, project: str = "shop", **given: object) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(project, **given)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        return caught.value


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


@pytest.fixture
def open_box() -> Iterator[Box]:
    """A box other users can look into; what pytest provides they cannot."""
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o755)
        box = Box(root)
        for place in (box.own.parent, box.own):
            place.chmod(0o755)
        if not all(place.stat().st_mode & 0o011 for place in root.resolve().parents):
            pytest.skip("the temporary directory is private")
        yield box
    finally:
        shutil.rmtree(root)


# The table


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("shift", "watch"),
        ("agent.profile", "claude"),
        ("agent.command", ("claude",)),
        ("agent.output", "stream-json"),
        ("agent.keep_api_keys", False),
        ("agent.permission_mode", "acceptEdits"),
        ("agent.allow_paid_overage", False),
        ("agent.max_budget_usd", 0),
        ("watch.max_turns", 12),
        ("watch.poke_timeout_s", 600),
        ("watch.stall_limit", 3),
        ("watch.poke_limit", 0),
        ("watch.hours", 0),
        ("watch.cap_usd", 0),
        ("watch.pause_s", 2),
        ("watch.sentinel", "ALL-TASKS-DONE"),
        ("limits.reset_margin_s", 120),
        ("limits.fixed_wait_s", 3600),
        ("limits.far_reset_days", 8),
        ("limits.far_probe_s", 14_400),
        ("limits.stale_wait_s", 45),
        ("retries.error_first_s", 10),
        ("retries.error_max_s", 900),
        ("retries.error_limit", 10),
        ("retries.transient_first_s", 30),
        ("retries.transient_max_s", 900),
        ("retries.transient_hours", 6),
        ("retries.human_every_s", 900),
        ("retries.human_hours", 12),
        ("retries.cap_limit", 25),
        ("retries.context_limit", 2),
        ("publish.enabled", True),
        ("publish.timeout_s", 120),
        ("tasks.path", "docs/TASKS.md"),
        ("tasks.autonomous_modes", ("Direct", "Loop", "Goal")),
        ("notify.timeout_s", 30),
        ("notify.retries", 2),
        ("state.keep_runs", 50),
        ("state.min_free_mb", 200),
    ],
    ids=str,
)
def test_without_any_file_the_documented_defaults_hold(box: Box, key: str, default: object) -> None:
    loaded = box.load("./project")
    assert value_of(loaded.config, key) == default
    assert loaded.origins[key] == "default"
    assert (loaded.path, loaded.warnings) == (None, ())


@pytest.mark.parametrize("key", list(table()))
def test_every_default_has_a_meaning_and_an_origin_and_passes_its_own_rule(key: str) -> None:
    entry = table()[key]
    assert entry.row.meaning
    assert entry.row.origin
    assert checked(entry, Given(value=entry.default, origin="default")) == entry.default


def test_the_printed_table_has_one_row_a_key_and_every_row_four_cells() -> None:
    lines = defaults_table().splitlines()
    assert [re.match(r"\| `([a-z_.]+)` \|", line)[1] for line in lines[2:]] == list(table())  # type: ignore[index]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}


def test_a_configuration_cannot_be_changed_in_place(box: Box) -> None:
    config = box.load("./project").config
    with pytest.raises(AttributeError):
        config.watch.max_turns = 99  # type: ignore[misc]


# Layers


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(box: Box) -> None:
    path = box.configure("[watch]\nmax_turns = 1\nstall_limit = 1\npoke_limit = 1\n")
    loaded = box.load(
        env={"STALL_LIMIT": "2", "POKE_LIMIT": "2"}, overrides={"watch.poke_limit": 3, "watch.hours": None}
    )
    watch = loaded.config.watch
    assert (watch.max_turns, watch.stall_limit, watch.poke_limit) == (1, 2, 3)
    assert loaded.origins["watch.max_turns"] == str(path)
    assert loaded.origins["watch.stall_limit"] == "environment STALL_LIMIT"
    assert loaded.origins["watch.poke_limit"] == "command line"
    assert loaded.origins["watch.hours"] == "default"
    assert loaded.path == path


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("POKE_TIMEOUT", "3600", "watch.poke_timeout_s", 3600),
        ("POKE_TIMEOUT", "10m", "watch.poke_timeout_s", 600),
        ("POKE_TIMEOUT", "0.5h", "watch.poke_timeout_s", 1800),
        ("STALL_LIMIT", "5", "watch.stall_limit", 5),
        ("STALL_LIMIT", "05", "watch.stall_limit", 5),
        ("POKE_LIMIT", "0", "watch.poke_limit", 0),
        ("POKE_LIMIT", " 7 ", "watch.poke_limit", 7),
        ("POKE_LIMIT", "", "watch.poke_limit", 0),
        ("RESET_MARGIN", "0", "limits.reset_margin_s", 0),
    ],
)
def test_the_references_variables_keep_working(
    box: Box, name: str, value: str, key: str, expected: float
) -> None:
    assert value_of(box.load("./project", env={name: value}).config, key) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POKE_TIMEOUT", "abc"),
        ("POKE_TIMEOUT", "0"),
        ("POKE_TIMEOUT", "-1"),
        ("POKE_TIMEOUT", "nan"),
        ("POKE_TIMEOUT", "inf"),
        ("STALL_LIMIT", "0"),
        ("STALL_LIMIT", "3.0"),
        ("STALL_LIMIT", "three"),
        ("POKE_LIMIT", "1; touch x"),
        ("POKE_LIMIT", "٣"),
        ("RESET_MARGIN", "-5"),
    ],
)
def test_a_bad_variable_is_a_usage_error_that_names_it(box: Box, name: str, value: str) -> None:
    error = box.refused("./project", env={name: value})
    assert error.usage
    assert str(error).startswith(f"environment {name}: ")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"watch.max_turns": 0}, "watch.max_turns is 0 (a whole number); it must be at least 1"),
        ({"watch.max_turns": "many"}, "must be a whole number, such as 12"),
        ({"watch.max_turns": True}, "must be a whole number"),
        ({"watch.cap_usd": "-1"}, "must be at least 0"),
        ({"watch.mx_turns": 3}, "did you mean watch.max_turns?"),
        ({"project": "/elsewhere"}, "project is no known key"),
    ],
)
def test_a_bad_option_is_a_usage_error(box: Box, overrides: dict[str, object], words: str) -> None:
    error = box.refused("./project", overrides=overrides)
    assert error.usage
    assert error.where == "command line"
    assert words in str(error)


def test_options_may_come_as_text_path_or_tuple(box: Box) -> None:
    overrides = {
        "watch.hours": "1.5",
        "watch.pause_s": "1m",
        "publish.enabled": "false",
        "agent.args": ("--verbose", ""),
        "agent.command": "/opt/bin/agent 'a b'",
        "watch.standing_command_file": Path("prompts/night.txt"),
    }
    config = box.load("./project", overrides=overrides).config
    assert (config.watch.hours, config.watch.pause_s, config.publish.enabled) == (1.5, 60, False)
    assert config.agent.args == ("--verbose", "")
    assert config.agent.command == ("/opt/bin/agent", "a b")
    assert config.watch.standing_command_file == str(box.root / "prompts/night.txt")


def test_a_later_layer_replaces_both_ways_of_giving_the_standing_command(box: Box) -> None:
    box.configure('[watch]\nstanding_command = "say ALL-TASKS-DONE"\n')
    watch = box.load(overrides={"watch.standing_command_file": "other.txt"}).config.watch
    assert (watch.standing_command, watch.standing_command_file) == ("", str(box.root / "other.txt"))


def test_the_file_of_the_standing_command_is_looked_for_beside_the_configuration(box: Box) -> None:
    box.configure('[watch]\nstanding_command_file = "shop.txt"\n')
    assert box.load().config.watch.standing_command_file == str(box.own / "shop.txt")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('profile = "claude"', ("claude",)),
        ('profile = "qwen"', ("qwen",)),
        ("command = []", ("claude",)),
        ('command = ["npx", "claude"]', ("npx", "claude")),
        ("command = \"npx 'the agent'\"", ("npx", "the agent")),
        ('profile = "custom"\ncommand = "mine"', ("mine",)),
    ],
)
def test_the_program_is_the_profiles_own_unless_one_is_given(
    box: Box, text: str, command: tuple[str, ...]
) -> None:
    box.configure(f"[agent]\n{text}\n")
    assert box.load().config.agent.command == command


# Checks


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[watch]\n\nstal_limit = 3", 4, "watch.stal_limit is no known key; did you mean watch.stall_limit?"),
        ("stall_limit = 3", 2, "did you mean watch.stall_limit?"),
        ("[agent]\npoke-timeout-s = 3", 3, "did you mean watch.poke_timeout_s?"),
        ("[agnet]\nuser = 'x'", 2, "agnet is no known section; did you mean agent?"),
        ("[Watch]\nhours = 1", 2, "did you mean watch?"),
        ("[zzz]\nhours = 1", 2, "the known sections are agent, watch, limits"),
        ("[watch.deep]\nx = 1", 2, "watch.deep is no known key"),
        ("[watch]\nsentinel = '''\nx'''\n'max turns' = 1", 5, "watch.max turns is no known key"),
        ("[watch]\nhours = 1\n[publish]\nhours = 1", 5, "publish.hours is no known key"),
        ('"a\\nb" = 1', None, "a?b is no known key"),
    ],
)
def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one(
    box: Box, text: str, line: int | None, words: str
) -> None:
    path = box.configure(text)
    error = box.refused()
    assert (error.where, error.line, error.usage) == (str(path), line, False)
    assert words in str(error)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("watch = 3", 2, "watch must be a section: begin a line with [watch]"),
        ("[[watch]]\nhours = 1", 2, "watch must be a section"),
        (
            '[watch]\nmax_turns = "12"',
            3,
            'watch.max_turns is "12" (text); it must be a whole number, such as 12',
        ),
        ("[watch]\nmax_turns = true", 3, "is true (a truth value); it must be a whole number"),
        ("[watch]\nmax_turns = 12.0", 3, "is 12.0 (a number); it must be a whole number"),
        ("[watch]\nmax_turns = [1]", 3, "is a list; it must be a whole number"),
        ("[watch]\nmax_turns = 2026-01-01", 3, "is 2026-01-01 (a date or time); it must be a whole number"),
        ("[watch]\nhours = 07:00:00", 3, "is 07:00:00 (a date or time); it must be a number"),
        ("[watch]\nhours = true", 3, "watch.hours is true (a truth value); it must be a number"),
        ("[watch]\nsentinel = 3", 3, "it must be text in quotes"),
        ("[publish]\nenabled = 1", 3, "publish.enabled is 1 (a whole number); it must be true or false"),
        ('[publish]\nenabled = "yes"', 3, "it must be true or false"),
        ("[agent]\nargs = 'x y'", 3, "it must be a list, each entry text in quotes"),
        (
            "[agent]\nargs = [\n'x',\n5,\n]",
            3,
            "agent.args[1] is 5 (a whole number); it must be text in quotes",
        ),
        (
            "[agent]\ncommand = 5",
            3,
            "it must be a list, each entry text in quotes, or one text to split into words",
        ),
        ("[agent]\nenv = 'A=b'", 3, 'it must be a table of texts, as {NAME = "value"}'),
        (
            "[agent.env]\nA = 'b'\nDEBUG = 1",
            4,
            "agent.env.DEBUG is a whole number; it must be text in quotes",
        ),
        ("[agent]\nprofile = 'cloude'", 3, 'it must be one of "claude", "codex"'),
        ("shift = 'dawn'", 2, 'shift is "dawn" (text); it must be one of "watch", "night"'),
        ("[limits]\npatterns = [{kind='limit'}]", 3, "limits.patterns[0] is {kind ="),
        ("[limits]\npatterns = [{kind='limit', regex='a', x=1}]", 3, "with a kind of limit, transient"),
        (
            "[[limits.patterns]]\nkind='limit'\nregex='a'\n[[limits.patterns]]\nkind='no'\nregex='a'",
            5,
            "patterns[1]",
        ),
        ("[watch]\ncap_usd = 0x" + "f" * 5000, 3, "watch.cap_usd is 0xfff"),
    ],
)
def test_a_wrong_type_names_the_key_what_was_given_and_what_is_expected(
    box: Box, text: str, line: int, words: str
) -> None:
    path = box.configure(text)
    error = box.refused()
    assert (error.where, error.line, error.usage) == (str(path), line, False)
    assert words in str(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[watch]\nstall_limit = 0", "the stall guard is mandatory"),
        ("[watch]\nmax_turns = 0", "at least 1"),
        ("[watch]\nmax_turns = 9999999999", "at most"),
        ("[watch]\npoke_timeout_s = 0", "above 0: a poke without an end"),
        ("[watch]\npoke_timeout_s = nan", "above 0"),
        ("[watch]\npoke_timeout_s = inf", "at most"),
        ("[watch]\nhours = -1", "at least 0"),
        ("[watch]\nhours = nan", "it must be"),
        ("[watch]\npause_s = -0.5", "at least 0"),
        ("[watch]\nsentinel = ''", "it must not be empty"),
        ("[watch]\nsentinel = '  '", "it must not be empty"),
        ('[watch]\nsentinel = "a\\nb"', "one line"),
        ("[watch]\nsentinel = ' DONE'", "without spaces around it"),
        ('[watch]\nstanding_command = "a\\u0000b"', "NUL"),
        ("[limits]\nfixed_wait_s = 0", "above 0"),
        (
            "[limits]\npatterns = [{kind='limit', regex='('}]",
            'limits.patterns[0].regex is "(" (text); it must be a reg',
        ),
        ("[limits]\npatterns = [{kind='limit', regex='a*'}]", "it would match every answer"),
        ("[retries]\nerror_limit = 0", "at least 1"),
        (
            "[retries]\nerror_max_s = 5",
            "retries.error_first_s (10) must not be longer than retries.error_max_s (5)",
        ),
        ("[retries]\ntransient_first_s = 1000", "must not be longer than retries.transient_max_s (900)"),
        ("[agent]\ntimezone = 'Europe/Berln'", "did you mean Europe/Berlin?"),
        ("[agent]\ntimezone = '../../etc/passwd'", "time zone"),
        ("[agent]\ntimezone = 'Europe'", "time zone"),
        ("[agent]\nuser = '-x'", "the name of a user"),
        ("[agent]\naccount = 'a/b'", "it must be a name"),
        ("[agent]\nmodel = '--help'", "it must not begin with '-'"),
        ("[agent]\nprofile = 'custom'", "the custom profile has no program of its own"),
        ("[agent]\ncommand = ['']", "its first word must be a program"),
        ("[publish]\ncommand = './tool'", "a bare name or an absolute path"),
        ("[notify]\ncommand = 'bin/tool'", "a bare name or an absolute path"),
        ('[agent]\ncommand = "agent \'x"', "cannot be split into words"),
        ("[agent.env]\n'A=B' = 'x'", "must be the name of a variable"),
        ("[agent]\npass_env = ['A B']", "must be the name of a variable"),
        ('[agent.env]\nA = "x\\u0000"', "NUL"),
        ("[agent]\nallow = ['']", "it must not hold an empty text"),
        ("[publish]\nremote = '--upload-pack=x'", "it must be a URL"),
        ("[publish]\nremote = '-x:y'", "it must not begin with '-'"),
        ("[publish]\nremote = 'origin'", "it must be a URL or an absolute path"),
        ("[publish]\nbranch = '-f'", "a branch name git accepts"),
        ("[publish]\nbranch = 'refs/heads/main'", "without refs/heads/"),
        ("[tasks]\npath = '/etc/passwd'", "inside the project"),
        ("[tasks]\npath = '../TASKS.md'", "inside the project"),
        ("[tasks]\nopen_words = []", "at least one word"),
        ("[tasks]\nid_pattern = '['", "regular expression"),
        ("[state]\nroot = 'var'", "an absolute path"),
        ("[state]\nkeep_runs = 0", "at least 1"),
        ("[watch]\nstanding_command = 'a'\nstanding_command_file = 'b'", "are both set"),
        ("[state]\nroot = '/srv/a'\nwork_root = '/srv/a/work'", "closed to the agent's user"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_reason(box: Box, text: str, words: str) -> None:
    path = box.configure(text)
    error = box.refused()
    assert (error.where, error.usage) == (str(path), False)
    assert error.line is not None
    assert words in str(error)


@pytest.mark.parametrize(
    ("section", "key"),
    [("publish", "command"), ("notify", "command"), ("state", "root"), ("state", "work_root")],
)
def test_nothing_the_harness_relies_on_may_lie_inside_the_project(box: Box, section: str, key: str) -> None:
    (box.root / "link").symlink_to(box.project)
    box.configure(f"[{section}]\n{key} = '{box.root}/link/tool'\n")
    assert "inside the project" in str(error := box.refused()) or "outside the project" in str(error)


BRANCHES = [
    *["main", "work/night", "a.b", "v1.0", "ünïcode", "a@b", "x-", "HEADS", "a.lockx", "a-b_c", "@a"],
    *[
        "",
        "@",
        "-a",
        ".a",
        "a.",
        "a..b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "a?b",
        "a*",
        "a[b",
        "a\\b",
        "a@{b",
        "/a",
        "a/",
    ],
    *["a//b", "a/.b", "a.lock", "a.lock/b", "a\x7fb", "a\tb", "HEAD"],
]


@pytest.mark.parametrize("name", BRANCHES, ids=ascii)
def test_a_branch_name_is_accepted_exactly_when_git_accepts_it(name: str) -> None:
    asked = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, check=False)
    by_git = asked.returncode == 0 and name not in {"@", "HEAD"}  # git reads both as the present branch
    assert (branch(name) is None) == (by_git or name == "")


# Files


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"[watch\n", 1, "not valid TOML at column"),
        (b"a = 1\n\nb = = 2\n", 3, "not valid TOML at column 5"),
        (b"a = 1\na = 2\n", 2, "not valid TOML"),
        (b"a = [1,\n", 2, "not valid TOML"),
        (b"a = 'x'\nb = '\xff'\n", 2, "byte 0xff is not UTF-8"),
        ("a = 'x'".encode("utf-16"), 1, "is not UTF-8"),
        (b"a = " + b"[" * 5000, None, "nested too deeply"),
        (b"a = " + b"9" * 5000, None, "not valid TOML"),
        (b"#" * 1_000_001, None, "longer than"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_file_that_is_no_toml_is_refused_with_the_place(
    box: Box, content: bytes, line: int | None, words: str
) -> None:
    path = box.write(content)
    error = box.refused()
    assert (error.where, error.line, error.usage) == (str(path), line, False)
    assert words in str(error)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(box: Box) -> None:
    box.write(b"\xef\xbb\xbfproject = '" + os.fsencode(box.project) + b"'\r\n[watch]\r\nmax_turns = 5\r\n")
    assert box.load().config.watch.max_turns == 5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "this is a directory"),
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.symlink_to("nowhere"), "No such file"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
    ids=["directory", "fifo", "dangling", "loop"],
)
def test_what_is_no_file_is_refused_and_never_waited_for(box: Box, make: object, words: str) -> None:
    make(box.own / "shop.toml")  # type: ignore[operator]
    assert words in str(box.refused())


def test_an_explicit_file_that_is_missing_is_named(box: Box) -> None:
    error = box.refused("./project", config_file=Path("gone.toml"))
    assert str(error).startswith(f"{box.root}/gone.toml: the configuration cannot be read: No such file")


@pytest.mark.skipif(AS_ROOT, reason="root reads everything")
def test_an_unreadable_file_is_named(box: Box) -> None:
    box.configure("").chmod(0o000)
    assert "Permission denied" in str(box.refused())


# Finding


def test_a_name_finds_its_file_and_the_file_the_project(box: Box) -> None:
    path = box.configure("")
    loaded = box.load("shop")
    assert (loaded.path, loaded.config.project) == (path, str(box.project))
    assert loaded.origins["project"] == str(path)


@pytest.mark.parametrize("way", ["project", "./project", "./project/", "link", "./link", "{root}/project"])
def test_a_path_finds_the_file_that_names_the_same_directory(box: Box, way: str) -> None:
    (box.root / "link").symlink_to(box.project)
    path = box.configure("")
    loaded = box.load(way.format(root=box.root))
    assert loaded.path == path
    assert os.path.isabs(loaded.config.project)
    assert os.path.realpath(loaded.config.project) == str(box.project)
    assert loaded.origins["project"] == "command line"


def test_a_links_own_name_is_kept_in_the_project_path(box: Box) -> None:
    (box.root / "link").symlink_to(box.project)
    assert box.load("./link").config.project == str(box.root / "link")


def test_an_unknown_name_lists_the_known_ones_and_both_places(box: Box) -> None:
    box.configure("", "shop")
    box.configure("", "blog", box.system)
    error = box.refused("shpo")
    assert not error.usage
    assert all(word in str(error) for word in ("'shpo'", "blog, shop", str(box.own), str(box.system)))
    assert known_names(box.environ, system_dir=box.system) == ["blog", "shop"]


def test_an_unknown_name_among_none_says_so(box: Box) -> None:
    assert "no project is configured yet" in str(box.refused("shop"))


@pytest.mark.parametrize("project", ["", "-x", "a b", ".hidden", "shop\n", "a\0b", "*"], ids=ascii)
def test_what_is_neither_a_path_nor_a_name_is_a_usage_error(box: Box, project: str) -> None:
    assert box.refused(project).usage


def test_a_directory_here_is_a_path_even_if_a_name_is_spelled_the_same(box: Box) -> None:
    (box.root / "shop").mkdir()
    path = box.configure("")
    loaded = box.load("shop")
    assert (loaded.config.project, loaded.path) == (str(box.root / "shop"), None)
    assert str(path) in loaded.warnings[0]


def test_the_users_own_file_wins_and_for_root_the_systems(box: Box) -> None:
    files = {place: box.configure("", "shop", place) for place in (box.own, box.system)}
    winner = files[box.system if AS_ROOT else box.own]
    assert box.load("shop").path == winner
    assert box.load("./project").path == winner


def test_the_place_decides_before_the_name_does(box: Box) -> None:
    files = {box.own: box.configure("", "a", box.own), box.system: box.configure("", "b", box.system)}
    assert box.load("./project").path == files[box.system if AS_ROOT else box.own]


def test_two_files_for_one_project_in_one_place_are_refused(box: Box) -> None:
    paths = [box.configure("", name) for name in ("one", "two")]
    error = box.refused("./project")
    assert all(str(path) in str(error) for path in paths)
    assert box.load("one").path == paths[0]


@pytest.mark.parametrize(
    "text",
    [
        "[watch\n",
        "[watch]\nhours = 1\n",
        "project = 'relative'\n",
        "project = 5\n",
        'project = "/a\\u0000"\n',
    ],
)
def test_a_file_that_does_not_say_whose_it_is_is_reported_not_silently_skipped(box: Box, text: str) -> None:
    path = box.write(text, "other")
    loaded = box.load("./project")
    assert loaded.path is None
    assert str(path) in loaded.warnings[0]
    shop = box.configure("")
    assert (box.load("./project").path, box.load("./project").warnings) == (shop, ())


def test_a_broken_file_of_this_project_is_never_taken_for_none(box: Box) -> None:
    path = box.configure("[watch\n")
    assert box.refused("./project").where == str(path)


def test_a_name_whose_file_names_no_project_is_refused(box: Box) -> None:
    box.write("[watch]\nhours = 1\n")
    assert "add project =" in str(box.refused())


def test_a_relative_project_is_refused(box: Box) -> None:
    box.write("project = '~/shop'\n")
    error = box.refused()
    assert "an absolute path" in str(error)
    assert error.line == 1


def test_an_explicit_file_must_not_be_another_projects(box: Box) -> None:
    other = box.root / "other"
    other.mkdir()
    path = box.configure("[watch]\nhours = 2\n", "elsewhere", box.root)
    assert box.load("./project", config_file=path).config.watch.hours == 2
    assert box.load("anything", config_file=path).config.project == str(box.project)
    assert f"not {other}" in str(box.refused("./other", config_file=path))


@pytest.mark.parametrize(
    ("environ", "own"),
    [
        ({"XDG_CONFIG_HOME": "/x"}, "/x/harness"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/harness"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/harness"),
        ({"HOME": "/h"}, "/h/.config/harness"),
        ({}, pwd.getpwuid(os.geteuid()).pw_dir + "/.config/harness"),
    ],
)
def test_both_places_are_looked_at_the_winning_one_first(environ: dict[str, str], own: str) -> None:
    expected = [Path("/etc/harness"), Path(own)]
    assert list(directories(environ)) == (expected if AS_ROOT else expected[::-1])


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("a = 1\nb = 2", ("b",), 2),
        ("a = 'b'\n# b\nb = 2", ("b",), 3),
        ("x = '''\nb = 1\n'''\nb = 2", ("b",), 4),
        ("[s]\nb = 1\n[t]\nb = 2", ("t", "b"), 4),
        ("s.b = 1", ("s", "b"), 1),
        ("b = [\n 1,\n]\nc = 1", ("b",), 1),
        ("[[p]]\nr = 1\n[[p]]\nr = 2", ("p", 1, "r"), 4),
        ('"\\u0062" = 1', ("b",), None),
        ("a = 1", ("b",), None),
    ],
)
def test_the_line_of_a_key_is_the_one_it_begins_on(
    text: str, key: tuple[str | int, ...], line: int | None
) -> None:
    assert line_of(text, key) == line


# Trust


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777], ids=oct)
@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_file_others_can_write_is_refused(box: Box, mode: int, what: str) -> None:
    path = box.configure("")
    guilty = path if what == "file" else box.own
    guilty.chmod(mode | (0o100 if what == "directory" else 0))
    for project in ("shop", "./project"):
        error = box.refused(project)
        assert f"chmod go-w {guilty}" in str(error)
        assert not error.usage


def test_a_sticky_directory_such_as_tmp_is_no_danger_to_a_private_file(box: Box) -> None:
    box.configure("")
    box.own.chmod(0o1777)
    assert box.load().path


def test_a_link_is_judged_by_where_it_leads(box: Box) -> None:
    real = box.configure("", "real", box.root)
    (box.own / "shop.toml").symlink_to(real)
    assert box.load().path == box.own / "shop.toml"
    real.chmod(0o666)
    assert "chmod go-w" in str(box.refused())


@pytest.mark.parametrize("way", ["directly", "through a link", "link inside"])
def test_a_file_inside_the_project_is_refused(box: Box, way: str) -> None:
    path = box.configure("", "mine", box.project if way != "link inside" else box.root)
    if way != "directly":
        place = box.own if way == "through a link" else box.project
        (place / "shop.toml").symlink_to(path)
        path = place / "shop.toml"
    error = box.refused("./project", config_file=path)
    assert "inside the project" in str(error)


@pytest.mark.root
@pytest.mark.skipif(not AS_ROOT, reason="needs a second user")
@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_file_of_another_user_is_refused(box: Box, what: str) -> None:
    path = box.configure("")
    os.chown(path if what == "file" else box.own, 12345, -1)
    assert "belongs to user 12345" in str(box.refused())


# Secrets

SECRETS = """
[agent]
args = ["--api-key", "sk-one", "--token=sk-two", "--max-tokens=5", "-v"]
env = { GITHUB_TOKEN = "sk-three", HTTPS_PROXY = "http://me:sk-four@proxy:1", EDITOR = "vi" }
[publish]
remote = "https://sk-five@example.org/x.git"
[notify]
command = ["curl", "-H", "Authorization: Bearer sk-six", "https://example.org"]
"""


def test_what_looks_secret_is_masked_and_the_rest_is_shown(box: Box) -> None:
    box.configure(SECRETS)
    text = render_origin(box.load())
    assert "sk-" not in text
    assert all(
        word in text for word in ("--api-key", '"vi"', "proxy:1", "example.org/x.git", "--max-tokens=5")
    )


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True)], ids=str)
def test_secrets_in_a_file_others_can_read_are_warned_of(open_box: Box, mode: int, warned: bool) -> None:
    path = open_box.configure(SECRETS)
    path.chmod(mode)
    assert (f"chmod 600 {path}" in " ".join(open_box.load().warnings)) == warned
    open_box.own.chmod(0o700)
    assert open_box.load().warnings == ()


def test_a_file_without_secrets_may_be_read_by_all(open_box: Box) -> None:
    path = open_box.configure("[agent.env]\nEDITOR = 'vi'\nMAX_THINKING_TOKENS = '9'\n")
    path.chmod(0o644)
    assert open_box.load().warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "[agent.env]\nA_TOKEN = 123456789",
        "[agent]\nargs = [['123456789']]",
        "[publish]\nremote = ' http://u:123456789@h\t'",
    ],
)
def test_an_error_message_does_not_repeat_a_secret(box: Box, text: str) -> None:
    box.configure(text)
    assert "123456789" not in str(box.refused())


def test_the_rest_of_the_environment_is_not_kept(box: Box) -> None:
    loaded = box.load("./project", env={"AWS_SECRET": "sk-seven", "STALL_LIMIT": "4"})
    assert "sk-seven" not in repr(loaded)


# Warnings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[watch]\nstanding_command = 'go on'", "never says ALL-TASKS-DONE"),
        ("[watch]\nstanding_command = 'go on, or say: ALL-TASKS-DONE'", None),
        ("[watch]\nstanding_command_file = '{project}/prompt.txt'", "the agent can change its instruction"),
        ("[watch]\nstanding_command_file = '/etc/prompt.txt'", None),
    ],
)
def test_what_is_legal_but_unwise_is_warned_of(box: Box, text: str, words: str | None) -> None:
    box.configure(text.replace("{project}", str(box.project)))
    warnings = box.load().warnings
    assert (words in warnings[0]) if words else warnings == ()


# Showing

RICH = """
shift = "night"
[agent]
command = ["/opt/my agent", 'say "hi"']
env = { "A_B" = "tab\\t\\u001b[31m\\u007f\\u0085 ünï" }
[watch]
hours = 1.5
poke_timeout_s = 31622400
[[limits.patterns]]
kind = "limit"
regex = '\\d+ "left"'
"""


def test_what_is_shown_is_toml_that_gives_the_same_configuration_back(box: Box) -> None:
    box.configure(RICH)
    loaded = box.load(env={"STALL_LIMIT": "4"})
    text = render_origin(loaded)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    for name, shown_text in (("again", text), ("bare", render_origin(loaded, origins=False))):
        box.write(shown_text, name)
        assert box.load(name).config == loaded.config


def test_every_line_says_where_its_value_came_from(box: Box) -> None:
    path = box.configure(RICH)
    lines = render_origin(box.load(env={"STALL_LIMIT": "4"}, overrides={"watch.max_turns": 5})).splitlines()
    assert len(lines) == len(table())
    found = {line.split(" = ")[0].strip(): line.rpartition("  # ")[2] for line in lines}
    assert found["watch.hours"] == str(path)
    assert found["watch.stall_limit"] == "environment STALL_LIMIT"
    assert found["watch.max_turns"] == "command line"
    assert found["notify.retries"] == "default"


# Reloading


def test_a_reload_reads_the_same_sources_again(box: Box) -> None:
    box.configure("[watch]\nhours = 1\nmax_turns = 1\n")
    loaded = box.load(env={"STALL_LIMIT": "4"}, overrides={"watch.max_turns": 5})
    box.configure("[watch]\nhours = 2\nmax_turns = 2\n")
    watch = reload(loaded).config.watch
    assert (watch.hours, watch.max_turns, watch.stall_limit) == (2, 5, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("project = '/elsewhere'\n", "project has changed"),
        ("project = '{project}'\nshift = 'night'\n", "shift has changed"),
        ("project = '{project}'\n[state]\nroot = '/srv/state'\n", "state.root has changed"),
        ("project = '{project}'\n[watch]\nhours = -1\n", "at least 0"),
        ("[watch\n", "not valid TOML"),
    ],
)
def test_a_reload_refuses_what_a_running_shift_cannot_follow(box: Box, text: str, words: str) -> None:
    box.configure("")
    loaded = box.load()
    box.write(text.replace("{project}", str(box.project)))
    with pytest.raises(ConfigError, match=words):
        reload(loaded)


def test_a_reload_does_not_fall_back_to_defaults_when_the_file_is_gone(box: Box) -> None:
    path = box.configure("")
    loaded = box.load("./project")
    path.unlink()
    with pytest.raises(ConfigError, match="gone"):
        reload(loaded)


# Whatever is written

VALUES = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.sampled_from(["\0", "-", "(", "Europe", "https://u:p@h", "a b", "'", "/", "..", "limit"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from([*table(), "watch", "zzz", "watch.zzz"]), value=VALUES)
def test_any_value_gives_a_configuration_or_one_line_saying_why_not(
    box: Box, key: str, value: object
) -> None:
    if key == "project":
        box.write(f"project = {shown(value)}\n")
    else:
        box.configure(f"{key} = {shown(value)}\n")
    message, text = "", ""
    try:
        text = render_origin(box.load())
    except ConfigError as error:
        message = str(error)
    assert "\n" not in message
    assert tomllib.loads(text) or message


def test_importing_the_configuration_loads_nothing_it_may_not_need() -> None:
    heavy = {
        "dateutil",
        "psutil",
        "structlog",
        "click",
        "tomllib",
        "zoneinfo",
        "difflib",
        "subprocess",
        "dataclasses",
    }
    code = f"import sys, watcher.config; print(sorted({heavy!r} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
