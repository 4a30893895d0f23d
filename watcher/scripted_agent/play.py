"""One invocation from its command line to its exit code: START HERE."""

from __future__ import annotations

import os
import time

from watcher.scripted_agent import VERSION, documents
from watcher.scripted_agent.options import (
    Options,
    Refused,
    check,
    check_settings,
    check_stream,
    parse,
    read_prompt,
)
from watcher.scripted_agent.plain_json import encoded
from watcher.scripted_agent.printer import Printer
from watcher.scripted_agent.sessions import Session, Sessions, check_chosen, choose, fresh_id
from watcher.scripted_agent.tape import Tape, TapeError, filled, log_line, prompt_facts

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing (9 ms)
if TYPE_CHECKING:
    from watcher.scripted_agent.tape import Act

TAPE_FAULT = 3
LASTING = ("sleep", "hang", "hang_before", "flood", "flood_result", "ignore")  # steps a signal can meet
FILES = ("write", "append", "delete", "task_done")
GIT = ("git", "commit", "empty_commit", "amend")


def main(argv: list[str], tape_path: str | None = None) -> int:
    """Play the next act and answer the exit code. Everything is written by then."""
    path = tape_path or os.environ.get("SCRIPTED_AGENT_TAPE", "")
    try:
        return _invoke(argv, Tape(path))
    except (TapeError, OSError) as fault:
        return _say(2, f"scripted agent: {fault}", TAPE_FAULT)


def _invoke(argv: list[str], tape: Tape) -> int:
    sessions = Sessions(tape.path)
    try:
        options = parse(argv)
        if options.has("--version"):
            return _say(1, f"{VERSION} (Claude Code)", 0)
        if not tape.path:
            raise TapeError("SCRIPTED_AGENT_TAPE names no tape")
        prompt, session = _admit(options, sessions)
    except Refused as refusal:
        if tape.path:
            tape.note(".log", log_line(argv, refused=str(refusal)))
        return _say(2, str(refusal), 1)
    poke, act = tape.take()
    asked = {"form": session.form, "id": session.id}
    line = log_line(argv, poke=poke, session=asked, **prompt_facts(prompt))
    return Player(options, tape, sessions, session, _prepared(act, poke, session)).play(line)


def _say(fd: int, text: str, code: int) -> int:
    os.write(fd, os.fsencode(text) + b"\n")
    return code


def _admit(options: Options, sessions: Sessions) -> tuple[bytes, Session]:
    """The prompt and the session, past every refusal, in the real program's order."""
    check_settings(options)
    check_chosen(options, sessions)
    check(options)
    prompt = read_prompt(options)
    try:
        session = choose(options, sessions)
    except Refused as refusal:
        if refusal.session_id and options.value("--output-format") == "stream-json":
            os.write(1, encoded(documents.lost(str(refusal), refusal.session_id)) + b"\n")
        raise
    check_stream(options)
    return prompt, session


def _prepared(act: Act, poke: int, session: Session) -> Act:
    """The act with its words filled in, and the session's id as it will be printed."""
    now = time.time()
    words = {"poke": str(poke), "session": session.id}
    if act.get("new_session"):
        words["session"] = fresh_id()
    if "session" in act:
        words["session"] = str(filled(act["session"], words, now))
    act = filled(act, words, now)
    session.id = words["session"]
    act["denials"] = [documents.denial(entry) for entry in act.get("denials", [])]
    return act


class Player:
    """Plays one act, step by step in the documented order."""

    def __init__(self, options: Options, tape: Tape, sessions: Sessions, session: Session, act: Act) -> None:
        self.options = options
        self.tape = tape
        self.sessions = sessions
        self.session = session
        self.act = act
        self.printer = Printer(options, act)
        self.started = time.monotonic()
        self.on_int = act.get("on_int", "nothing")

    def play(self, log: bytes) -> int:
        """Log and play; the exit code. An interrupt ends the act where it is."""
        try:
            if any(step in self.act for step in LASTING):
                self._watch_signals()
            self.tape.note(".log", log)  # whoever waits for it may send a signal from now on
            self._start()
            self._work()
            self._talk()
            code = self._end()
            time.sleep(self.act.get("hang", 0))
        except KeyboardInterrupt:
            return self._interrupted()
        except SystemExit as end:  # TERM or HUP
            return int(str(end.code))
        return code

    def _watch_signals(self) -> None:
        import signal  # only for acts that last: 4 ms

        def leave(number: int, frame: object) -> None:
            raise SystemExit(128 + number)

        signal.signal(signal.SIGINT, signal.default_int_handler)  # even if it was ignored by the parent
        signal.signal(signal.SIGTERM, leave)
        signal.signal(signal.SIGHUP, leave)
        for name in self.act.get("ignore", []):
            signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)

    def _start(self) -> None:
        """Start-up, then the session exists and the stream names it."""
        time.sleep(self.act.get("sleep", 0))
        if text := self.act.get("stderr"):
            os.write(2, text.encode("utf-8", "surrogateescape"))
        self.on_int = self.act.get("on_int", "result")
        if not self.options.has("--no-session-persistence"):
            self.sessions.keep(self.session.id, self.session.cost)
        if "stdout" in self.act:
            return
        self.printer.raw(self.act.get("before", ""))
        self.printer.event(documents.init(self.options, self.session.id))

    def _work(self) -> None:
        """Everything that changes the project or leaves processes."""
        needs_files = any(step in self.act for step in FILES)
        needs_git = any(step in self.act for step in GIT)
        if not (needs_files or needs_git or "orphan" in self.act):
            return
        from watcher.scripted_agent import work

        work.change_files(self.act)
        work.use_git(self.act)
        if "orphan" in self.act:
            work.leave_orphan(self.act["orphan"], self.tape)

    def _talk(self) -> None:
        """What is printed before the result, and what can hold or end the program there."""
        if "stdout" not in self.act:
            self._print_events()
        time.sleep(self.act.get("hang_before", 0))
        if "crash" in self.act:
            _crash(self.act["crash"])

    def _print_events(self) -> None:
        subtype = self.act.get("subtype", "success")
        if not subtype.startswith("error"):
            api_error = subtype == "success" and bool(self.act.get("is_error"))
            text = self.act.get("say", "done")
            self.printer.event(documents.assistant(self.options, self.session.id, text, api_error))
        for entry in self.act["denials"]:
            self.printer.event(documents.denied(entry, self.session.id))
        for event in self.act.get("events", []):
            self.printer.event(event)
        if "rate_limit" in self.act:
            self.printer.event(documents.rate_limit(self.act["rate_limit"], self.session.id))
        if "flood" in self.act:
            self.printer.flood(self.session.id, self.act["flood"])

    def _end(self) -> int:
        """Print the result, book its cost, and answer the exit code it asks for.

        From here on an interrupt prints nothing: as measured, there is no second result.
        """
        self.on_int = self.act.get("on_int", "nothing")
        self.printer.keep_back(self.act.get("cut", 0))
        document = self._result(documents.result)
        if "stdout" in self.act:
            self.printer.raw(self.act["stdout"])
        else:
            self._print_result(document)
            self.printer.raw(self.act.get("after", ""))
        if self.act.get("forget_session"):
            self.sessions.forget(self.session.id)
        silent = "stdout" in self.act or self.act.get("no_result")
        failed = document.get("is_error") is True and not silent
        return int(self.act.get("exit", 1 if failed else 0))

    def _print_result(self, document: documents.Document) -> None:
        if not self.act.get("no_result"):
            for index in range(self.act.get("repeat_result", 1)):
                indexed = document | ({"result_index": index} if index else {})
                self.printer.result(indexed, self.act.get("flood_result", 0))
        self.printer.close()

    def _result(self, build: documents.Builder) -> documents.Document:
        """A result with this poke's cost in it, which the session remembers."""
        cost = self.act.get("cost", 0.01)
        total = self.session.cost + cost
        if not self.options.has("--no-session-persistence"):
            self.sessions.keep(self.session.id, total)
        named = cost if self.act.get("cost_per_process") else total
        milliseconds = int((time.monotonic() - self.started) * 1000)
        return build(self.act, self.options, self.session.id, named, milliseconds)

    def _interrupted(self) -> int:
        if self.on_int == "result":
            self.printer.result(self._result(documents.aborted))
            self.printer.close()
        return 0


def _crash(name: str) -> None:
    import resource
    import signal

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number = signal.Signals[f"SIG{name}"]
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
