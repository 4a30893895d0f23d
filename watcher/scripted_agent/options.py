"""The command line: what the program accepts, and its words when it refuses (measured on 2.1.332)."""

from __future__ import annotations

import os

# Name -> how its value is written in the usage: "" none, <one>, [optional], <several...>.
# An option of the real program that is not played here is refused as unknown, rather than ignored.
OPTIONS = {
    "--print": "",
    "--verbose": "",
    "--version": "",
    "--fork-session": "",
    "--no-session-persistence": "",
    "--dangerously-skip-permissions": "",
    "--bare": "",
    "--strict-mcp-config": "",
    "--include-partial-messages": "",
    "--resume": "[value]",
    "--session-id": "<uuid>",
    "--output-format": "<format>",
    "--input-format": "<format>",
    "--max-turns": "<turns>",
    "--max-budget-usd": "<amount>",
    "--model": "<model>",
    "--fallback-model": "<model>",
    "--effort": "<level>",
    "--settings": "<file-or-json>",
    "--setting-sources": "<sources>",
    "--system-prompt": "<prompt>",
    "--append-system-prompt": "<prompt>",
    "--append-system-prompt-file": "<file>",
    "--system-prompt-snapshot": "<on|off>",
    "--permission-mode": "<mode>",
    "--permission-prompts": "<target>",
    "--json-schema": "<schema>",
    "--allowedTools": "<tools...>",
    "--disallowedTools": "<tools...>",
    "--tools": "<tools...>",
    "--add-dir": "<directories...>",
    "--mcp-config": "<configs...>",
}
ALIASES = {
    "-p": "--print",
    "-r": "--resume",
    "-v": "--version",
    "--allowed-tools": "--allowedTools",
    "--disallowed-tools": "--disallowedTools",
}
CHOICES = {
    "--output-format": ("text", "json", "stream-json"),
    "--input-format": ("text", "stream-json"),
    "--permission-mode": ("acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan"),
    "--permission-prompts": ("host", "none"),
    "--system-prompt-snapshot": ("on", "off"),
}
UNLISTED = {("--permission-mode", "default")}  # accepted, though no usage text names it
SOURCES = ("user", "project", "local")
STDIN_LIMIT = 10 * 1024 * 1024


class Refused(Exception):
    """The program does not start: the message on stderr, exit 1.

    With a `session_id`, stream-json also gets a result that names it.
    """

    def __init__(self, message: str, session_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id


class Options:
    """A parsed command line. (Dataclasses would cost 13 ms to import.)"""

    __slots__ = ("given", "prompt")

    def __init__(self, given: dict[str, list[str]], prompt: str | None) -> None:
        self.given = given
        self.prompt = prompt

    def has(self, name: str) -> bool:
        return name in self.given

    def value(self, name: str, default: str = "") -> str:
        """The last value given; the default also where an optional value was left out."""
        values = self.given.get(name)
        return values[-1] if values else default


def parse(argv: list[str]) -> Options:
    """The options and the prompt (the first word that is neither option nor value)."""
    given: dict[str, list[str]] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            words += rest
            break
        if not _is_option(arg):
            words.append(arg)
            continue
        name, equals, attached = arg.partition("=")
        name = ALIASES.get(name, name)
        if name not in OPTIONS:
            raise Refused(f"error: unknown option '{arg}'")
        values = [attached] if equals else _take(name, rest)
        for value in values:
            _check_value(name, value)
        given.setdefault(name, []).extend(values)
    return Options(given, words[0] if words else None)


def _is_option(arg: str) -> bool:
    return len(arg) > 1 and arg.startswith("-")


def _take(name: str, rest: list[str]) -> list[str]:
    """The values of one option, taken off what is left of the command line."""
    kind = OPTIONS[name]
    if not kind:
        return []
    if kind.startswith("["):
        return [rest.pop(0)] if rest and not _is_option(rest[0]) else []
    if not rest:
        raise Refused(f"error: option '{name} {kind}' argument missing")
    values = [rest.pop(0)]
    while kind.endswith("...>") and rest and not _is_option(rest[0]):
        values.append(rest.pop(0))  # so it swallows a prompt that follows, as the real program does
    return values


def _check_value(name: str, value: str) -> None:
    why = ""
    choices = CHOICES.get(name)
    if choices and value not in choices and (name, value) not in UNLISTED:
        why = f"Allowed choices are {', '.join(choices)}."
    elif name == "--max-turns" and _number(value) is None:
        why = "must be a number"
    elif name == "--max-budget-usd" and (_number(value) or 0) <= 0:
        why = "--max-budget-usd must be a number greater than 0"
    if why:
        raise Refused(f"error: option '{name} {OPTIONS[name]}' argument '{value}' is invalid. {why}")


def _number(text: str) -> float | None:
    try:
        return float(text or 0)
    except ValueError:
        return None


def check_settings(options: Options) -> None:
    """Only a missing file is refused: broken settings pass in silence, as in the real program."""
    settings = options.value("--settings")
    inline = settings.startswith("{") and settings.endswith("}")
    if settings and not inline and not os.path.exists(settings):
        raise Refused(f"Error: Settings file not found: {os.path.abspath(settings)}")


def check(options: Options) -> None:
    """What is looked at once a chosen session id is found to be free."""
    addition = options.value("--append-system-prompt-file")
    if addition and not os.path.exists(addition):
        raise Refused(f"Error: Append system prompt file not found: {addition}")
    for source in filter(None, options.value("--setting-sources").split(",")):
        if source.strip() not in SOURCES:
            raise Refused(
                f"Error processing --setting-sources: Invalid setting source: {source}. "
                f"Valid options are: {', '.join(SOURCES)}"
            )
    _check_permissions(options)
    if options.has("--json-schema"):
        _check_schema(options.value("--json-schema"))


def check_stream(options: Options) -> None:
    """The last refusal before the program starts to work."""
    if options.value("--output-format") == "stream-json" and not options.has("--verbose"):
        raise Refused("Error: When using --print, --output-format=stream-json requires --verbose")


def _check_permissions(options: Options) -> None:
    bypass = options.has("--dangerously-skip-permissions")
    bypass = bypass or options.value("--permission-mode") == "bypassPermissions"
    if bypass and os.getuid() == 0 and os.environ.get("IS_SANDBOX") != "1":
        raise Refused(
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
        )


def _check_schema(text: str) -> None:
    from watcher.scripted_agent.plain_json import loads

    try:
        loads(text)
    except ValueError as error:
        raise Refused(f"Error: --json-schema is not valid JSON: {error}") from None


def read_prompt(options: Options) -> bytes:
    """The prompt from the command line, else from stdin (never from a terminal)."""
    prompt = _read_stdin() if options.prompt is None else os.fsencode(options.prompt)
    if not prompt:
        raise Refused(
            "Error: Input must be provided either through stdin or as a prompt argument when using --print"
        )
    if not prompt.strip():
        raise Refused(
            "Error: Input contained only whitespace. "
            "Provide a prompt with text through stdin or as a prompt argument when using --print"
        )
    return prompt


def _read_stdin() -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        while not os.isatty(0) and (piece := os.read(0, 1 << 16)):
            pieces.append(piece)
            size += len(piece)
            if size > STDIN_LIMIT:
                raise Refused(
                    "Error: piped stdin input exceeds 10MB. "
                    "Pass large content as a file path in your prompt instead."
                )
    except OSError:  # stdin is closed
        pass
    return b"".join(pieces)
