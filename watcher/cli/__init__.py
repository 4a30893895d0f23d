"""The command line: thin, and each command's code is imported only when it is called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from watcher import __version__
from watcher.decision.endings import Exit

# Name -> where its command stands, in the order of `harness --help`.
COMMANDS = {
    "watch": "watcher.cli.watch:command",
    "status": "watcher.cli.status:command",
    "logs": "watcher.cli.logs:command",
    "history": "watcher.cli.history:command",
    "stop": "watcher.cli.verbs:stop",
    "drain": "watcher.cli.verbs:drain",
    "reload": "watcher.cli.verbs:reload",
    "wake": "watcher.cli.verbs:wake",
    "restore": "watcher.cli.restore:command",
    "explain": "watcher.cli.explain:command",
    "config": "watcher.cli.config:command",
    "demo": "watcher.cli.demo:command",
}


class Lazy(click.Group):
    """A group that imports a command's module when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness", message="%(prog)s %(version)s")
def harness() -> None:
    """Keep a coding agent working with nobody at the keyboard, and believe nothing it says.

    Example: harness watch ~/project 12
    """


def run(argv: Sequence[str], name: str = "harness") -> int:
    """Run one command; its exit code. Usage errors are 64, since click's own 2 would read as a stall."""
    try:
        result = harness.main(list(argv), prog_name=name, standalone_mode=False)
    except click.UsageError as error:
        error.show(sys.stderr)
        return Exit.USAGE
    except click.ClickException as error:
        error.show(sys.stderr)
        return Exit.CONFIG
    except click.Abort:
        return Exit.INTERRUPT
    return result if isinstance(result, int) else 0
