"""What no single value can be blamed for: values against one another, and what is legal but unwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from watcher.config.files import Document
from watcher.config.schema import Config
from watcher.config.show import holds_secrets, shown
from watcher.config.trust import others_can_read, within
from watcher.config.values import Given, error


def refuse_contradictions(config: Config, given: Mapping[str, Given]) -> None:
    """Raise the first contradiction, at the place of a value that was given."""
    for keys, message in _contradictions(config):
        key = next(key for key in keys if key in given)
        raise error(key, given[key], message)


def warnings(config: Config, document: Document | None) -> Iterator[str]:
    """What a person would want to know before the night."""
    watch = config.watch
    if document and holds_secrets(config) and others_can_read(document.path):
        yield f"{document.path} holds secrets and other users can read it: run chmod 600 {document.path}"
    if watch.standing_command and watch.sentinel not in watch.standing_command:
        yield f"the standing command never says {watch.sentinel}, so the agent cannot say that it is done"
    if watch.standing_command_file and within(config.project, watch.standing_command_file):
        yield f"{watch.standing_command_file} stands inside the project: the agent can change its instruction"


def _contradictions(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each with the keys to blame, the likeliest first; at least one of them is not a default."""
    if config.watch.standing_command and config.watch.standing_command_file:
        keys = ("watch.standing_command", "watch.standing_command_file")
        yield keys, f"{keys[0]} and {keys[1]} are both set, and only one can be sent: remove one"
    for name in ("error", "transient"):
        first, longest = (getattr(config.retries, f"{name}_{part}_s") for part in ("first", "max"))
        if first > longest:
            keys = (f"retries.{name}_max_s", f"retries.{name}_first_s")
            yield keys, f"{keys[1]} ({shown(first)}) must not be longer than {keys[0]} ({shown(longest)})"
    if not config.agent.command:
        yield ("agent.profile",), 'the custom profile has no program of its own: set agent.command = ["..."]'
    yield from _misplaced(config)


def _misplaced(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    programs = {"publish.command": config.publish.command, "notify.command": config.notify.command}
    for key, argv in programs.items():
        if argv and "/" in argv[0] and within(config.project, argv[0]):
            yield (key,), f"{key} runs {argv[0]}, which the agent can change: keep it outside the project"
    roots = {"state.root": config.state.root, "state.work_root": config.state.work_root}
    for key, root in roots.items():
        if root and within(config.project, root):
            yield (
                (key,),
                f"{key} is {root}, inside the project, within reach of the agent: choose another",
            )
    if all(roots.values()) and within(config.state.root, config.state.work_root):
        yield (
            ("state.work_root",),
            "state.work_root lies inside state.root, which is closed to the agent's user: choose another",
        )
