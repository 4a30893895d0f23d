"""The standing command: the one text through which the agent learns what it may do (H 3).

Four parts: where the work comes from, which tasks are eligible, what must not be touched, and when
to stop. It reaches the program as a file on its standard input, so any character may stand in it.
"""

from __future__ import annotations

from pathlib import Path

from watcher.config import Config, ConfigError

LONGEST = 10_000_000  # bytes; Claude Code refuses more on its standard input


def standing_command(config: Config) -> str:
    """The text sent on every poke: the configured one, or one built for the task list.

    Raises ConfigError when `watch.standing_command_file` cannot be read, or when nothing would be said.
    """
    if config.watch.standing_command:
        return _demand_words(config.watch.standing_command, "watch.standing_command")
    if config.watch.standing_command_file:
        return _from_file(Path(config.watch.standing_command_file))
    return "\n\n".join(
        (
            f"The only source of work is the task list in {config.tasks.path}.",
            "Choose one task and no more: one whose status is in progress comes first, else the next "
            "open one. Where the list has a Mode field, only tasks whose mode is "
            f"{_either(config.tasks.autonomous_modes)} are yours, and a task is only yours once every "
            "task it depends on is done.",
            "Everything else is off limits. Do not touch it, and do not prepare it either: no drafts, no "
            "notes, no new files for it, no new task ids, no change to its entry in the list.",
            "Work on your task until every check of the project passes. Then set its status in the list "
            "(done, or blocked with the reason), keep every place that states or counts statuses "
            "consistent, and commit exactly the files that belong to the task. Do not publish: that is "
            "done for you. After one task, stop.",
            "If no task is yours, change nothing and answer at once with exactly this line and nothing "
            f"else: {config.watch.sentinel}",
        )
    )


def _either(words: tuple[str, ...] | list[str]) -> str:
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def _from_file(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device never ends
            raise OSError("it is not a regular file")
        with path.open("rb") as file:
            text = file.read(LONGEST + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"watch.standing_command_file: {path} cannot be read ({error}). The agent would have no "
            "instruction. Name a readable UTF-8 file, or remove the key to use the built-in text."
        ) from error
    return _demand_words(text, f"watch.standing_command_file: {path}")


def _demand_words(text: str, where: str) -> str:
    """The text itself, unless no program would take it."""
    why = ""
    if not text.strip():
        why = "holds nothing but blanks"
    elif "\0" in text:
        why = "holds a NUL byte"
    elif len(text.encode()) > LONGEST:
        why = f"is longer than {LONGEST} bytes"
    if why:
        raise ConfigError(
            f"{where} {why}, which no agent program takes for an instruction. "
            "Write one, or remove the key to use the built-in text."
        )
    return text
