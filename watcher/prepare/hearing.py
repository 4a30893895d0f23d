"""Apply what the verbs left for the running shift: stop, drain, reload, wake (DESIGN 9)."""

from __future__ import annotations

from typing import assert_never

from watcher.decision.endings import Exit
from watcher.log import Log
from watcher.record.requests import Verb, take
from watcher.record.runs import Run
from watcher.signals import Inbox, Stop


def hear(inbox: Inbox, run: Run, log: Log) -> bool:
    """Apply each request once; True when there was one. A USR1 without any is a plain wake."""
    heard = False
    for verb in take(run, log.warning):
        heard = True
        log.info(f"asked to {verb.value}")
        match verb:
            case Verb.STOP:
                inbox.ask(Stop.NOW, Exit.TERMINATED)
            case Verb.DRAIN:
                inbox.ask(Stop.DRAIN, Exit.INTERRUPT)
            case Verb.RELOAD:
                inbox.reload = True
            case Verb.WAKE:
                inbox.woken = True
            case _:
                assert_never(verb)
    return heard
