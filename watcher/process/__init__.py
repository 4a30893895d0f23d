"""The one door to other processes: start them, wait for them, end them and what they leave behind.

supervise    one program to its end, output to files: the agent, gates, a predicate  (supervise.py)
run_tool     a short helper, output captured: git, a notifier                        (tool.py)
end_orphans  after a crash of ours: what the last poke left running                  (orphans.py)

Below these: start.py starts, waiting.py sleeps, family.py knows who belongs to a child,
sweep.py ends a family, proc.py reads /proc, values.py holds what goes in and comes out.
"""

from watcher.process.family import become_subreaper
from watcher.process.orphans import end_orphans
from watcher.process.proc import boot_id
from watcher.process.supervise import supervise
from watcher.process.tool import run_tool
from watcher.process.values import (
    MARKER,
    Account,
    Command,
    End,
    Finished,
    Interrupts,
    Ladder,
    ProcessError,
    Started,
    Tool,
)

__all__ = [
    "MARKER",
    "Account",
    "Command",
    "End",
    "Finished",
    "Interrupts",
    "Ladder",
    "ProcessError",
    "Started",
    "Tool",
    "become_subreaper",
    "boot_id",
    "end_orphans",
    "run_tool",
    "supervise",
]
