"""The command line: thin, and each command's code is imported only when it is called."""

from __future__ import annotations

import contextlib
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
    "review": "watcher.cli.review:command",
    "signoff": "watcher.cli.signoff:command",
    "reopen": "watcher.cli.reopen:command",
    "publish": "watcher.cli.publish:command",
    "harden-remote": "watcher.cli.harden_remote:command",
    "verify-state": "watcher.cli.verify:command",
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


@click.group(cls=Lazy)
@click.version_option(__version__, prog_name="harness", message="%(prog)s %(version)s")
def harness() -> None:
    """Keep a coding agent working with nobody at the keyboard, and believe nothing it says.

    Example: harness watch ~/project 12
    """


def run(argv: Sequence[str], name: str = "harness") -> int:
    """Run one command; its exit code. Usage errors are 64, since click's own 2 would read as a stall.

    Under the name `watcher` the command is watch, without its name (the reference's calling convention).
    """
    watch = harness.get_command(click.Context(harness), "watch") if name == "watcher" else None
    try:
        result = (watch or harness).main(
            list(argv), prog_name=name, standalone_mode=False, help_option_names=["-h", "--help"]
        )
    except click.ClickException as error:
        with contextlib.suppress(OSError):  # nobody need be there to read it
            error.show(sys.stderr)
        return Exit.USAGE if isinstance(error, click.UsageError) else Exit.CONFIG
    except click.Abort:
        return Exit.INTERRUPT
    except (OSError, SystemExit) as error:  # SystemExit is what click makes of a closed pipe
        return output_lost(error)
    return result if isinstance(result, int) else 0


def output_lost(error: BaseException) -> int:
    """The exit code where it is our own output that takes no more; any other error is raised again.

    A reader that closed its end of the pipe has seen what it wanted: that is no failure.
    """
    try:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()  # what could not be written is still there, and fails again
    except BrokenPipeError:
        return 0
    except OSError as lost:
        with contextlib.suppress(OSError):
            print(f"harness: the output cannot be written: {lost.strerror}", file=sys.stderr)
        return Exit.CONFIG
    cause = error.__context__ if isinstance(error, SystemExit) else None
    raise cause or error
