"""Any agent program by a template: the reference's calling convention and others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from watcher.agents.custom import ARGUMENT_LIMIT, Custom
from watcher.agents.profile import Ask

ASK = Ask(session_id=None, resume=False, max_turns=12, output="json", prompt="do it")


def argv(command: Sequence[str], **changes: object) -> list[str]:
    return Custom().argv(command, dataclasses.replace(ASK, **changes))  # type: ignore[arg-type]


def test_a_bare_command_is_called_as_the_reference_calls_it() -> None:
    rest = ["--max-turns", "12", "--permission-mode", "acceptEdits", "--output-format", "json"]
    assert argv(["agent-cli"]) == ["agent-cli", "-p", "do it", *rest]
    resumed = argv(["agent-cli"], session_id="s-1", resume=True)
    assert resumed == ["agent-cli", "-p", "do it", "--resume", "s-1", *rest]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["a", "-n", "{max_turns}"], ["a", "-n", "12"]),
        (["a", "--ask={prompt}", "x"], ["a", "--ask=do it", "x"]),
        (["a", "{session_args}", "{max_turns}"], ["a", "--resume", "s-1", "12"]),
        (["{prompt}", "{max_turns}"], ["{prompt}", "12"]),
    ],
    ids=["only the turns", "inside a word", "session arguments", "never in the program's own name"],
)
def test_places_are_filled(command: list[str], expected: list[str]) -> None:
    assert argv(command, session_id="s-1", resume=True) == expected


def test_a_prompt_that_holds_a_place_is_passed_on_as_it_is() -> None:
    assert argv(["a", "{prompt}"], prompt="say {session} and {max_turns}") == [
        "a",
        "say {session} and {max_turns}",
    ]


@pytest.mark.parametrize("prompt", ['it\'s "quoted"', "$HOME `id`", "two\nlines", "-dash"])
def test_any_character_reaches_the_program(prompt: str) -> None:
    assert argv(["a", "-p", "{prompt}"], prompt=prompt)[2] == prompt


def test_a_prompt_too_long_for_an_argument_is_refused_and_stdin_is_named() -> None:
    with pytest.raises(ValueError, match="standard input"):
        argv(["a", "{prompt}"], prompt="x" * (ARGUMENT_LIMIT + 1))
    assert argv(["a", "{max_turns}"], prompt="x" * (ARGUMENT_LIMIT + 1)) == ["a", "12"]


def test_a_session_is_chosen_only_where_the_program_can_take_one() -> None:
    assert not Custom().chooses_session_id
    chosen = Custom(fresh_args=("--session-id", "{session}"))
    assert chosen.chooses_session_id
    ask = dataclasses.replace(ASK, session_id="s-1")
    assert chosen.argv(["a", "{session_args}"], ask) == ["a", "--session-id", "s-1"]
