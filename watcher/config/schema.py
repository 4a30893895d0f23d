"""The one table of everything that can be configured: key, type, meaning, origin, default (H 12.2, 14.3).

H and A in an origin are the two documents this program is built from; "ours" is a choice of this program.
Lengths end in `_s`, `_hours`, `_days`; 0 switches off only what says so.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from watcher.config import rules
from watcher.config.rules import YEAR_H, YEAR_S, above_zero, between, count

PatternKind = Literal["limit", "transient", "context", "session_lost", "needs_human", "error"]


class Row(msgspec.Struct, frozen=True):
    """What the table says of one key beside its type and default."""

    meaning: str
    origin: str
    rule: rules.Rule | None = None
    env: str = ""  # the reference's environment variable, which overrides the file
    argv: bool = False  # one text is split into words, as a shell would, but without a shell
    shown: str = ""  # the default in words, where the value itself says too little


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One [section] of the file."""


class Pattern(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of the user's own, and what it is."""

    kind: PatternKind
    regex: str  # searched for in an error's own text


class Agent(Section, frozen=True, kw_only=True):
    """[agent]: which program is poked, as whom, with what."""

    profile: Annotated[
        Literal["claude", "codex", "custom", "gemini", "opencode", "qwen"],
        Row("how the program is called and its answer read", "H 1"),
    ] = "claude"
    command: Annotated[
        tuple[str, ...],
        Row(
            "the program and its first arguments; a relative path begins at the project",
            "H 12.1",
            rules.command,
            argv=True,
            shown="the profile's name",
        ),
    ] = ()
    user: Annotated[
        str, Row("unprivileged user the agent runs as; empty: the harness's own", "H 7.1", rules.user)
    ] = ""
    sandbox: Annotated[
        Literal["none", "bwrap"],
        Row("what the agent is locked into beside its user; bwrap is bubblewrap", "H 7.1, 15.3"),
    ] = "none"
    sandbox_network: Annotated[
        Literal["host", "none"], Row("the network inside the sandbox", "ours: the model is elsewhere")
    ] = "host"
    account: Annotated[
        str, Row("name of the quota shared with other projects; empty: profile and user", "ours", rules.name)
    ] = ""
    resume_args: Annotated[
        tuple[str, ...],
        Row("custom profile: what resumes a session, in the place of {session_args}", "H 12.2", rules.texts),
    ] = ("--resume", "{session}")
    fresh_args: Annotated[
        tuple[str, ...],
        Row("custom profile: what begins a session under its {session}", "ours", rules.texts, shown="none"),
    ] = ()
    output: Annotated[
        Literal["stream-json", "json"],
        Row(
            "what the program prints; json is one object at its end", "ours: a killed poke keeps its session"
        ),
    ] = "stream-json"
    model: Annotated[
        str, Row("model to ask for; empty: the program's own choice", "ours", rules.argument)
    ] = ""
    args: Annotated[tuple[str, ...], Row("further arguments for the program", "ours", rules.arguments)] = ()
    env: Annotated[
        dict[str, str], Row("variables added to the agent's environment", "ours", rules.variables)
    ] = msgspec.field(default_factory=dict)
    pass_env: Annotated[
        tuple[str, ...], Row("variables handed on from the harness's environment", "ours", rules.variables)
    ] = ()
    keep_api_keys: Annotated[
        bool, Row("leave API keys in the agent's environment", "ours: a key silently switches billing")
    ] = False
    timezone: Annotated[
        str,
        Row("zone the agent runs in and prints resets in; empty: the system's", "H 12.3.3", rules.timezone),
    ] = ""
    instruction_file: Annotated[
        str,
        Row(
            "project file given as system prompt; none switches it off",
            "H 3",
            rules.one_line,
            shown="CLAUDE.md or AGENTS.md where present",
        ),
    ] = ""
    permission_mode: Annotated[str, Row("the program's permission mode", "H 12.2", rules.word)] = (
        "acceptEdits"
    )
    allow: Annotated[tuple[str, ...], Row("permission rules that allow more", "H 7.3", rules.texts)] = ()
    deny: Annotated[tuple[str, ...], Row("permission rules that deny more", "H 7.3", rules.texts)] = ()
    gates: Annotated[tuple[str, ...], Row("gate commands the agent may run", "H 5.3", rules.texts)] = ()
    allow_paid_overage: Annotated[
        bool, Row("poke on when the quota is over and extra usage is paid", "ours: nobody is there to agree")
    ] = False
    max_budget_usd: Annotated[
        float, Row("dollars one poke may cost, 0 = off", "ours, after A's hard cap", between(0, rules.MOST))
    ] = 0


class Watch(Section, frozen=True, kw_only=True):
    """[watch]: the watch shift."""

    max_turns: Annotated[int, Row("tool rounds in one poke", "H 12.2, second argument", count(1))] = 12
    poke_timeout_s: Annotated[
        float,
        Row(
            "seconds until a poke is stopped",
            "H 12.2",
            above_zero(YEAR_S, "a poke without an end would hold the run"),
            env="POKE_TIMEOUT",
        ),
    ] = 600
    stall_limit: Annotated[
        int,
        Row(
            "successful pokes in a row without a new revision that end the run",
            "H 12.2, 6.3",
            count(1, "the stall guard is mandatory, an idle loop would burn quota for ever"),
            env="STALL_LIMIT",
        ),
    ] = 3
    poke_limit: Annotated[int, Row("pokes in one run, 0 = off", "H 12.2", count(0), env="POKE_LIMIT")] = 0
    hours: Annotated[float, Row("hours in one run, 0 = off", "ours, after H 6.3", between(0, YEAR_H))] = 0
    cap_usd: Annotated[
        float, Row("dollars in one run, 0 = off", "ours, after H 6.3", between(0, rules.MOST))
    ] = 0
    pause_s: Annotated[float, Row("seconds between two pokes", "H 12.2", between(0, YEAR_S))] = 2
    sentinel: Annotated[str, Row("the line that says nothing is left to do", "H 12.2", rules.sentinel)] = (
        "ALL-TASKS-DONE"
    )
    standing_command: Annotated[
        str, Row("instruction of every poke", "H 3", rules.text, shown="the built-in one, after H 12.2")
    ] = ""
    standing_command_file: Annotated[
        str, Row("file holding the instruction, relative to the configuration", "ours", rules.one_line)
    ] = ""


class Limits(Section, frozen=True, kw_only=True):
    """[limits]: waiting for a quota."""

    reset_margin_s: Annotated[
        float, Row("seconds slept past a reset", "H 12.2", between(0, YEAR_S), env="RESET_MARGIN")
    ] = 120
    fixed_wait_s: Annotated[
        float, Row("seconds waited when no reset can be read", "H 12.2, 6.4", above_zero(YEAR_S))
    ] = 3600
    far_reset_days: Annotated[
        float,
        Row("a reset further away than this is for a person", "ours: a week and a day", above_zero(366)),
    ] = 8
    far_probe_s: Annotated[
        float, Row("seconds between two tries while such a reset is awaited", "ours", above_zero(YEAR_S))
    ] = 14_400
    stale_wait_s: Annotated[
        float, Row("seconds waited when a reset that is over is announced again", "ours", above_zero(YEAR_S))
    ] = 45
    patterns: Annotated[
        tuple[Pattern, ...], Row("own messages: a list of {kind, regex}", "H 10: formats change")
    ] = ()


class Retries(Section, frozen=True, kw_only=True):
    """[retries]: how often, and how far apart, what went wrong is tried again."""

    error_first_s: Annotated[
        float, Row("first wait after an error, doubling", "ours", above_zero(YEAR_S))
    ] = 10
    error_max_s: Annotated[float, Row("longest wait after an error", "ours", above_zero(YEAR_S))] = 900
    error_limit: Annotated[int, Row("errors in a row that end the run", "H 6.3, overall cap", count(1))] = 10
    transient_first_s: Annotated[
        float, Row("first wait when the provider is overloaded, doubling", "ours", above_zero(YEAR_S))
    ] = 30
    transient_max_s: Annotated[float, Row("longest such wait", "ours", above_zero(YEAR_S))] = 900
    transient_hours: Annotated[
        float,
        Row("hours of overload that end the run", "ours: outages end within a night", above_zero(YEAR_H)),
    ] = 6
    human_every_s: Annotated[
        float, Row("seconds between two tries while a person is needed", "ours", above_zero(YEAR_S))
    ] = 900
    human_hours: Annotated[
        float,
        Row("hours without that person that end the run", "ours: until the morning", above_zero(YEAR_H)),
    ] = 12
    cap_limit: Annotated[
        int,
        Row("capped pokes in a row without a new revision that end the run", "ours, after H 6.3", count(1)),
    ] = 25
    context_limit: Annotated[
        int, Row("fresh sessions in a row that are too long at once and end the run", "ours", count(1))
    ] = 2


class Publish(Section, frozen=True, kw_only=True):
    """[publish]: the way to the remote (H 6.7, 7.2)."""

    enabled: Annotated[bool, Row("publish new revisions", "H 7.2")] = True
    remote: Annotated[
        str,
        Row("URL published to", "H 7.2, target wired in", rules.remote, shown="origin's, pinned at start"),
    ] = ""
    branch: Annotated[
        str, Row("branch published", "H 7.2", rules.branch, shown="the one checked out at start")
    ] = ""
    to: Annotated[
        str,
        Row(
            "branch of the remote published to, as review/main",
            "H 7.5",
            rules.branch,
            shown="the same branch",
        ),
    ] = ""
    ssh_key: Annotated[
        str,
        Row("private key for an ssh remote", "H 7.2", rules.absolute, shown="the harness's user's own"),
    ] = ""
    token_file: Annotated[
        str,
        Row("file with the token, or USER:TOKEN, for an https remote", "H 7.2", rules.absolute, shown="none"),
    ] = ""
    protected_paths: Annotated[
        tuple[str, ...],
        Row("globs of paths no published commit may change, as .github/**", "H 7.2", rules.texts),
    ] = ()
    max_file_mb: Annotated[
        int, Row("megabytes a published file may have", "ours: half of what forges take", count(1))
    ] = 50
    max_total_mb: Annotated[
        int, Row("megabytes taken from the project at once", "ours: the disk is not the agent's", count(1))
    ] = 1024
    allow_secrets: Annotated[
        tuple[str, ...],
        Row("what looks like a secret and is none: fingerprints, or globs of paths", "ours", rules.texts),
    ] = ()
    command: Annotated[
        tuple[str, ...],
        Row("own publication tool", "H 12.1", rules.own_command, argv=True, shown="harness publish"),
    ] = ()
    timeout_s: Annotated[float, Row("seconds until publishing is given up", "ours", above_zero(YEAR_S))] = 120


class Tasks(Section, frozen=True, kw_only=True):
    """[tasks]: the task list (H 4, Appendix B). Words are compared without regard to case."""

    path: Annotated[
        str, Row("the task list; by default docs/tasks.md is looked for too", "H 12.2", rules.within_project)
    ] = "docs/TASKS.md"
    format: Annotated[str, Row("its format; auto looks at the file", "ours", rules.word)] = "auto"
    autonomous_modes: Annotated[
        tuple[str, ...], Row("modes the agent may work on alone", "H 4, Appendix B", rules.words)
    ] = ("Direct", "Loop", "Goal")
    open_words: Annotated[tuple[str, ...], Row("status words: to do", "H Appendix B", rules.words)] = (
        "open",
    )
    progress_words: Annotated[tuple[str, ...], Row("status words: begun", "H Appendix B", rules.words)] = (
        "in progress",
        "in-progress",
    )
    done_words: Annotated[tuple[str, ...], Row("status words: done", "H Appendix B", rules.words)] = ("done",)
    parked_words: Annotated[
        tuple[str, ...], Row("status words: not to be touched", "H Appendix B, 12.2", rules.words)
    ] = ("planned", "dropped", "blocked")
    id_pattern: Annotated[
        str,
        Row("regular expression of a task id", "H 12.1", rules.optional_regex, shown="as the format has it"),
    ] = ""


class Notify(Section, frozen=True, kw_only=True):
    """[notify]: how a person is told."""

    command: Annotated[
        tuple[str, ...],
        Row("program given alerts as JSON on stdin", "ours", rules.own_command, argv=True, shown="none"),
    ] = ()
    timeout_s: Annotated[float, Row("seconds until it is stopped", "ours", above_zero(YEAR_S))] = 30
    retries: Annotated[int, Row("further tries when it fails", "ours", count(0))] = 2


class State(Section, frozen=True, kw_only=True):
    """[state]: where the harness remembers."""

    root: Annotated[
        str, Row("records", "ours", rules.absolute, shown="/var/lib/harness, or $XDG_STATE_HOME/harness")
    ] = ""
    work_root: Annotated[
        str,
        Row("checkouts", "ours", rules.absolute, shown="/var/lib/harness-work, or $XDG_CACHE_HOME/harness"),
    ] = ""
    keep_runs: Annotated[int, Row("runs kept of a project", "ours", count(1))] = 50
    min_free_mb: Annotated[int, Row("megabytes left free on the disk, 0 = off", "ours", count(0))] = 200


class Config(Section, frozen=True, kw_only=True):
    """Everything configured for one project."""

    project: Annotated[
        str, Row("the project directory", "H 12.2, first argument", rules.absolute, shown="PROJECT")
    ] = ""
    shift: Annotated[Literal["watch", "night"], Row("which shift works on it", "H; A")] = "watch"
    agent: Agent = msgspec.field(default_factory=Agent)
    watch: Watch = msgspec.field(default_factory=Watch)
    limits: Limits = msgspec.field(default_factory=Limits)
    retries: Retries = msgspec.field(default_factory=Retries)
    publish: Publish = msgspec.field(default_factory=Publish)
    tasks: Tasks = msgspec.field(default_factory=Tasks)
    notify: Notify = msgspec.field(default_factory=Notify)
    state: State = msgspec.field(default_factory=State)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One key with its row, type and default."""

    key: str  # dotted
    kind: Any  # the type without its Annotated
    default: Any
    row: Row


@functools.cache
def table() -> Mapping[str, Entry]:
    """Every key of the configuration with its row, in the order of the file."""
    return MappingProxyType({entry.key: entry for entry in _rows(Config, "")})


@functools.cache
def sections() -> tuple[str, ...]:
    """The names of the file's [sections]."""
    return tuple(dict.fromkeys(key.partition(".")[0] for key in table() if "." in key))


def _rows(section: type[Section], prefix: str) -> Iterator[Entry]:
    for field in msgspec.structs.fields(section):
        kind, *notes = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _rows(kind, f"{prefix}{field.name}.")
            continue
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        yield Entry(key=prefix + field.name, kind=kind, default=default, row=notes[0])
