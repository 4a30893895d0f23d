"""The sessions the program knows: one small file an id, holding the session's cost so far."""

from __future__ import annotations

import os

from watcher.scripted_agent.options import Options, Refused

LENGTHS = [8, 4, 4, 4, 12]
DIGITS = frozenset("0123456789abcdefABCDEF")
NO_TITLE = (
    "Error: --resume requires a valid session ID or session title when used with --print. "
    "Usage: claude -p --resume <session-id|title>"
)


def fresh_id() -> str:
    """A random UUID (the uuid package would cost 8 ms to import)."""
    digits = os.urandom(16).hex()
    digits = f"{digits[:12]}4{digits[13:16]}8{digits[17:]}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == LENGTHS and DIGITS.issuperset("".join(parts))


class Sessions:
    """A directory of sessions. Ids are compared as they are written: upper case is another id."""

    def __init__(self, tape: str) -> None:
        home = os.environ.get("HOME")
        self.folder = os.path.join(home, ".scripted-agent", "sessions") if home else tape + ".sessions"

    def knows(self, session_id: str) -> bool:
        return _is_name(session_id) and os.path.exists(self._file(session_id))

    def cost(self, session_id: str) -> float:
        """Dollars of the session until now."""
        if not self.knows(session_id):
            return 0.0
        with open(self._file(session_id), encoding="utf-8") as file:
            return float(file.read() or 0)

    def keep(self, session_id: str, cost: float) -> None:
        """Make the id one that can be resumed. An id that is no file's name is printed, but not kept."""
        if _is_name(session_id):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            with open(self._file(session_id), "w", encoding="utf-8") as file:
                file.write(repr(cost))

    def forget(self, session_id: str) -> None:
        if self.knows(session_id):
            os.unlink(self._file(session_id))

    def _file(self, session_id: str) -> str:
        return os.path.join(self.folder, session_id)


def _is_name(session_id: str) -> bool:
    return session_id not in ("", ".", "..") and "/" not in session_id and "\0" not in session_id


class Session:
    """The session of this poke: how it was asked for, its id, and what it had cost before."""

    __slots__ = ("cost", "form", "id")

    def __init__(self, form: str, session_id: str, cost: float = 0.0) -> None:
        self.form = form
        self.id = session_id
        self.cost = cost


def check_chosen(options: Options, sessions: Sessions) -> None:
    """Refuse a --session-id that cannot be given to a new session."""
    chosen = options.value("--session-id")
    if not chosen:
        return
    if options.has("--resume") and not options.has("--fork-session"):
        raise Refused("Error: --session-id with --continue or --resume also needs --fork-session.")
    if not is_uuid(chosen):
        raise Refused("Error: Invalid session ID. Must be a valid UUID.")
    if sessions.knows(chosen):
        raise Refused(f"Error: Session ID {chosen} is already in use.")


def choose(options: Options, sessions: Sessions) -> Session:
    """The session the options ask for; refuses to resume one that is not known."""
    chosen = options.value("--session-id")
    if not options.has("--resume"):
        return Session("chosen", chosen) if chosen else Session("new", fresh_id())
    resumed = options.value("--resume")
    if not resumed:
        raise Refused(NO_TITLE, session_id=fresh_id())
    if not sessions.knows(resumed):
        raise _unknown(resumed)
    if options.has("--fork-session"):
        return Session("fork", chosen or fresh_id(), sessions.cost(resumed))
    return Session("resume", resumed, sessions.cost(resumed))


def _unknown(session_id: str) -> Refused:
    if is_uuid(session_id):
        return Refused(f"No conversation found with session ID: {session_id}", session_id=session_id)
    why = f'Provided value "{session_id}" is not a UUID and does not match any session title.'
    return Refused(f"{NO_TITLE}. {why}", session_id=fresh_id())
