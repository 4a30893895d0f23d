"""What the README says is so: its commands, its configuration, its defaults, its exit codes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.test_cli import unknown_in
from watcher.config import defaults_table, load
from watcher.config.schema import table
from watcher.decision.endings import WATCH, Ending, Exit

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
STARTS = ("harness ", "watcher ", "scripts/", ".ci/")


def command_lines(text: str = README) -> list[str]:
    """Every command line of ours: in a block of commands, or between backticks in prose."""
    blocks = re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    tables = r"<!-- defaults -->.*?<!-- /defaults -->"  # its words are the code's, and checked against it
    prose = re.sub(rf"^```.*?^```$|{tables}", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for line in [*lines, *re.findall(r"`([^`\n]+)`", prose)] if line.startswith(STARTS)]


@pytest.mark.parametrize("line", dict.fromkeys(command_lines()))
def test_every_command_exists_with_the_options_it_is_given(line: str) -> None:
    program = line.split()[0]
    if "/" in program:
        assert os.access(ROOT / program, os.X_OK), f"{program} cannot be run"
    else:
        assert unknown_in(line) == []


@pytest.mark.parametrize("number", [n for n, (kind, _) in enumerate(BLOCKS) if kind == "toml"])
def test_every_configuration_is_accepted(number: int, tmp_path: Path) -> None:
    text = BLOCKS[number][1]
    path = tmp_path / "example.toml"
    path.write_text(text)
    path.chmod(0o600)
    project = re.search(r'(?m)^project = "(.+)"$', text)
    loaded = load(
        project[1] if project else "/srv/shop", environ={}, overrides={}, config_file=path, cwd=ROOT
    )
    assert loaded.path == path
    assert loaded.warnings == ()


def test_the_table_of_defaults_is_the_one_in_the_code() -> None:
    """To renew it, put what `harness config defaults` prints between the two markers."""
    _, marker, rest = README.partition("<!-- defaults -->\n")
    shown, end, _ = rest.partition("<!-- /defaults -->")
    assert marker
    assert end
    assert shown.strip() == defaults_table().strip()


SAID_OF = {
    Ending.DONE: "the task list is finished",
    Ending.UNUSABLE: "cannot be used",
    Ending.STALLED: "stall",
    Ending.CEILING: "a ceiling you set",
    Ending.UNPUBLISHED: "remote does not hold",
}


def exit_codes() -> dict[int, str]:
    """The rows of the README's first table of exit codes; a row of several codes stands for each."""
    rows = re.search(r"^\| exit \|.*\n\|[-| ]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert rows, "there is no table that begins with | exit |"
    cells = [[cell.strip() for cell in row.strip("| \n").split("|")] for row in rows[1].splitlines()]
    return {int(code): meaning for codes, meaning in cells for code in codes.split(",")}


def test_the_table_of_exit_codes_is_the_one_in_the_code() -> None:
    codes = exit_codes()
    assert set(codes) == {kind.exit_code for kind in WATCH.values()} | set(Exit)
    assert [ending for ending, kind in WATCH.items() if SAID_OF[ending] not in codes[kind.exit_code]] == []


def test_the_references_variables_are_all_named() -> None:
    variables = {entry.row.env for entry in table().values()} - {""}
    assert {name for name in variables if f"`{name}`" not in README} == set()


def test_every_file_that_is_pointed_at_exists() -> None:
    named = re.findall(r"`((?:watcher|tests|scripts|systemd|\.ci)/[\w./-]+)`|\]\(([\w./-]+)\)", README)
    assert [path for pair in named for path in pair if path and not (ROOT / path).exists()] == []


def test_a_claim_about_command_lines_can_fail() -> None:
    text = "```sh\nharness watch x  # y\nls\n```\nSee `watcher x 12`, `harness.toml`, `scripts/gone`.\n"
    assert command_lines(text) == ["harness watch x  # y", "watcher x 12", "scripts/gone"]
