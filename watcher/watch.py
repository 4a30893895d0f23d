"""The watch shift: poke the agent until the task list is done. START HERE.

    sit out a wait -> poke -> observe -> decide -> record -> publish -> again

The agent's word is never taken for anything: its answer is classified before it is believed, progress
is what git says, done is what the task list does not contradict, published is what the remote says.
"""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from watcher import tell
from watcher.agents.profile import Ask
from watcher.decision.decide import ceiling, decide
from watcher.decision.endings import WATCH, Ending
from watcher.decision.outcome import Answer, Outcome
from watcher.decision.sentinel import says
from watcher.decision.state import (
    Decision,
    InFlight,
    Observation,
    Pause,
    Policy,
    Session,
    Wait,
    WatchState,
)
from watcher.effect.git import GitError, Look, Repository
from watcher.effect.notify import Notifier
from watcher.effect.publish import Published, Publisher
from watcher.effect.systemd import Systemd, waiting, working
from watcher.effect.wait import Clock, wait_until
from watcher.log import Log
from watcher.poke import Agent
from watcher.record.account import Account
from watcher.record.error import RecordError
from watcher.record.journal import Journal
from watcher.recovery import take_up
from watcher.signals import Inbox, Stop
from watcher.tasks.list import TaskList

# Outcomes that say nothing of the account's quota: the program never got as far as asking for it.
UNTOLD = frozenset({Outcome.INTERRUPTED, Outcome.UNREADABLE, Outcome.SESSION_LOST, Outcome.TRANSIENT})


@dataclass(kw_only=True, slots=True)
class Watch:
    """One watch shift and everything it works with. `work` is the program; the rest is its steps."""

    policy: Policy
    agent: Agent
    ask: Ask  # the same on every poke, but for the session
    prompt: str
    repository: Repository
    publisher: Publisher | None
    tasks: TaskList
    journal: Journal
    account: Account
    notifier: Notifier
    inbox: Inbox
    clock: Clock
    systemd: Systemd
    log: Log
    seen_branches: dict[str, str] = field(default_factory=dict)
    reload: Callable[[Watch], None] = lambda _: None
    answered: Stop = Stop.NO

    def work(self, state: WatchState) -> int:
        """Poke until an ending or a stop. Returns the exit code; raises RecordError when disk fails."""
        state = take_up(self, state)
        while state.ending is None:
            state = self.sit_out(state)
            if self.inbox.stop is not Stop.NO:
                return self.leave(state)
            if state.ending is None and state.wait is None:
                state, answer = self.poke(state)
                state = self.publish(self.judge(state, answer))
        return self.end(state, state.ending)

    # --- the steps ------------------------------------------------------------------------------

    def sit_out(self, state: WatchState) -> WatchState:
        """Wait until the recorded instant, or until a signal asks for something; then the way is free.

        The state still waits afterwards where the account's gate is closed.
        """
        wait = state.wait
        self._listen()
        if wait is not None:
            if wait.pause is not Pause.BETWEEN:
                self.log.info("waiting", pause=wait.pause.value, until=wait.until.isoformat(), why=wait.why)
            self.systemd.status(waiting(state.pokes, wait, self.clock.now()))
            wait_until(
                wait.until,
                clock=self.clock,
                bell=self.inbox,
                over=self._listen,
                beat=self.systemd.beat,
                beat_s=self.systemd.beat_s,
                longest_s=self._longest(wait),
            )
            if wait.pause is not Pause.BETWEEN:
                state = self.publish(state)
        if self.inbox.stop is not Stop.NO:
            return state  # the wait stands, for the next start
        held = None if self.inbox.woken else self.account.hold(self.clock.now())
        self.inbox.woken = False
        wait = Wait(until=held.until, pause=Pause.ACCOUNT, why=held.why) if held else None
        if reached := ceiling(self.policy, state, held.until if held else self.clock.now()):
            return replace(state, wait=None, ending=Ending.CEILING, because=reached)
        state = replace(state, wait=wait)
        if wait is not None:
            self.journal.save(state)
        return state

    def poke(self, state: WatchState) -> tuple[WatchState, Answer]:
        """One poke, with what is about to happen on disk before it happens."""
        number = state.pokes + 1
        marker = f"{state.run}/{number}"
        session = state.session
        if session is None and self.agent.profile.chooses_session_id:
            session = Session(id=str(uuid.uuid4()))
        state = replace(
            state,
            pokes=number,
            session=session,
            wait=None,
            in_flight=InFlight(
                poke=number,
                started_at=self.clock.now(),
                marker=marker,
                resumed=bool(session and session.begun),
            ),
        )
        papers = self.journal.prepare(number, self.prompt)
        self.journal.save(state)
        self.systemd.status(working(number, self.clock.now()))
        try:
            poked = self.agent.poke(
                self._ask(state),
                papers,
                marker=marker,
                interrupts=self.inbox,
                tick=self._tick,
                on_start=lambda it: self.journal.note_start(number, it.pid, it.started_at_ticks, it.boot_id),
            )
        except OSError as error:  # of our own files: a program that cannot be started is a result
            raise RecordError(error.filename or papers.out, "open", error.errno) from error
        tell.leftovers(self.log, poked.finished)
        return state, poked.answer

    def judge(self, state: WatchState, answer: Answer) -> WatchState:
        """Observe, decide, and record the decision before anything acts on it."""
        look = self._look(state)
        observation = Observation(
            answer=answer,
            revision=look.revision if look else None,
            open_tasks=self._open_tasks(answer),
            cost_is_cumulative=self.agent.profile.cost_is_cumulative(answer.response.program_version),
        )
        now = self.clock.now()
        decision = decide(self.policy, state, observation, now)
        self.inbox.read()
        self.inbox.woken = False  # while the agent worked there was no wait to end; from here on there is
        self.journal.record(state, observation, decision, now)
        self._tell_account(decision)
        tell.poke(self.log, state, observation, decision, look, self.seen_branches)
        if decision.alert:
            self._alert("needs you", decision.alert, state)
        return decision.state

    def publish(self, state: WatchState) -> WatchState:
        """Due whenever the remote is not known to hold the tip. A failure is retried, never fatal."""
        tip = state.revision.tip if state.revision else ""
        if self.publisher is None or not tip or tip == state.published:
            return state
        self.systemd.allow(self.publisher.longest_s)
        publication = self.publisher.publish(tip)
        if publication.result is Published.FAILED:
            self.log.warning(
                "publish failed; it is tried again after the next poke", tip=tip, why=publication.detail
            )
            return state
        self.log.info(publication.result.value, tip=tip, branch=state.branch)
        state = replace(state, published=publication.remote_tip)
        self.journal.save(state)
        return state

    def end(self, state: WatchState, ending: Ending) -> int:
        """Record the ending and tell whoever must know. Work that is not on the remote is not done."""
        self.systemd.stopping()
        state = self.publish(state)
        if ending is Ending.DONE and self.publisher is not None and not state.is_published:
            ending = Ending.UNPUBLISHED
        kind = WATCH[ending]
        self.journal.end(state, ending.value, kind.exit_code, self.clock.now())
        published = state.is_published if self.publisher else None
        tell.ending(self.log, state, ending, published=published)
        self.systemd.status(f"ended after poke {state.pokes}: {ending.value}")
        if kind.alert:
            self._alert(ending.value, state.because, state)
        return kind.exit_code

    def leave(self, state: WatchState) -> int:
        """Stopped by a signal: nothing ends, the next start goes on from here."""
        self.systemd.stopping()
        state = self.publish(state)
        self.systemd.status(f"stopped after poke {state.pokes}; the next start goes on from there")
        self.log.info(
            "stopped; the next start goes on from here", exit=self.inbox.exit_code, pokes=state.pokes
        )
        return self.inbox.exit_code

    # --- small parts ----------------------------------------------------------------------------

    def _longest(self, wait: Wait) -> float:
        """Never longer than it looks now, however the clock is set meanwhile.

        A back-off is a length. A reset is an instant, and the account's gate holds to it afterwards.
        """
        return (wait.until - self.clock.now()).total_seconds()

    def _tick(self) -> None:
        """While the agent works: feed the watchdog, and answer a person who asked for a stop."""
        self.systemd.beat()
        if self.inbox.stop is not self.answered:
            self.answered = self.inbox.stop
            now = self.answered is Stop.NOW
            self.log.info(
                "asked to stop now: the agent is being ended"
                if now
                else "asked to stop after this poke; Ctrl-C again stops now"
            )

    def _listen(self) -> bool:
        """Take in what was asked meanwhile; True when it ends a wait."""
        self.inbox.read()
        if self.inbox.reload:
            self.inbox.reload = False
            self.systemd.reloading()
            self.reload(self)
            self.systemd.ready()
        return self.inbox.stop is not Stop.NO or self.inbox.woken

    def _alert(self, subject: str, text: str, state: WatchState) -> None:
        self.systemd.allow(self.notifier.longest_s)
        self.notifier.alert(subject, text, state)

    def _ask(self, state: WatchState) -> Ask:
        """This poke's question: the session, what is left to spend, the instruction file if it is there."""
        ask, session = self.ask, state.session
        if ask.instruction_file is not None and not os.path.isfile(ask.instruction_file):
            self.log.warning("the instruction file is gone", path=str(ask.instruction_file))
            ask = dataclasses.replace(ask, instruction_file=None)
        if self.policy.cap_usd is not None and self.agent.profile.native_budget:
            left = self.policy.cap_usd - state.spent_usd
            ask = dataclasses.replace(ask, budget_usd=min(left, ask.budget_usd or left))
        if session is None:
            return ask
        return dataclasses.replace(ask, session_id=session.id, resume=session.begun)

    def _tell_account(self, decision: Decision) -> None:
        """What this poke learned of the quota is for every project of the account."""
        wait = decision.state.wait
        if wait is not None and wait.pause in (Pause.LIMIT, Pause.OVERAGE):
            reset = decision.reset
            over = reset is not None and reset.at <= self.clock.now()
            words = reset.text if reset else ""
            self.account.limited(wait.until, words or decision.because, over=over)
        elif decision.outcome not in UNTOLD:
            self.account.answered()

    def _look(self, state: WatchState) -> Look | None:
        try:
            return self.repository.look(state.branch)
        except GitError as error:
            self.log.warning("the branch could not be read; this poke counts as no progress", why=str(error))
            return None

    def _open_tasks(self, answer: Answer) -> tuple[str, ...]:
        """Only a claim of being done is held against the list; reading it costs nothing otherwise."""
        return self.tasks.eligible() if says(answer.response.text, self.policy.sentinel) else ()


def begin(run: str, now: datetime, look: Look, *, branch: str, remote: str) -> WatchState:
    """The memory of a run that starts here: what is on the branch now is no progress."""
    seen = (look.revision.tree,) if look.revision.tree else ()
    return WatchState(run=run, began_at=now, branch=branch, remote=remote, revision=look.revision, seen=seen)
