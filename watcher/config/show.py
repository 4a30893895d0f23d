"""The configuration for the eyes of a person: where each value came from, and the table of defaults."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from watcher.config.schema import Config, Entry, table

if TYPE_CHECKING:
    from watcher.config.layers import Loaded

MASK = "***"
_HIDDEN = r"(?i)token|key|passw|passphrase|secret|credential|auth|cookie"

_CONTROL = r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]"  # what json leaves and a terminal may obey
_USERINFO = r"(https?://)[^/@\s]+(?=@)|(://)[^/@\s:]*:[^/@\s]+(?=@)"  # of http all of it: tokens stand alone
_HARMLESS = r"(?i)(\w+_)?MAX_\w*TOKENS|GIT_AUTHOR_\w+"
_HEADER = r"(?i)\b(bearer|basic|token)\s+\S+"
_BARE = r"[A-Za-z0-9_-]+"


def render_origin(loaded: Loaded, *, origins: bool = True) -> str:
    """Every key as a line `key = value  # origin`, in TOML that could be given back; secrets are masked."""
    pairs = {key: shown(_masked(key, value_of(loaded.config, key))) for key in table()}
    key_width = max(map(len, pairs))
    value_width = min(40, max(map(len, pairs.values())))
    lines = (
        f"{key:<{key_width}} = {value:<{value_width}}  # {_comment(loaded.origins[key])}"
        if origins
        else f"{key:<{key_width}} = {value}"
        for key, value in pairs.items()
    )
    return "\n".join(lines) + "\n"


def defaults_table() -> str:
    """Every key with its default, meaning and origin, as a Markdown table."""
    rows = [["key", "default", "meaning", "origin"], ["---"] * 4, *map(_row, table().values())]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def value_of(config: Config, key: str) -> Any:
    """The value of a dotted key."""
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def shown(value: object) -> str:
    """A value as TOML, on one line and harmless to a terminal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() < 1000 else hex(value)  # str() refuses to go on for ever
    if isinstance(value, str):
        text = json.dumps(re.sub(_USERINFO, rf"\1\2{MASK}", value), ensure_ascii=False)
        return re.sub(_CONTROL, lambda match: f"\\u{ord(match[0]):04x}", text)
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_name(name)} = {shown(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)


def holds_secrets(config: Config) -> bool:
    """Whether a value is worth hiding, by its name or its form."""
    named = any(value and _is_secret(name) for name, value in config.agent.env.items())
    return named or bool(re.search(_USERINFO, config.publish.remote))


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _is_secret(name: str) -> bool:
    plain = name.strip("-").replace("-", "_")
    return bool(re.search(_HIDDEN, plain)) and not re.fullmatch(_HARMLESS, plain)


def _name(name: str) -> str:
    return name if re.fullmatch(_BARE, name) else shown(name)


def _masked(key: str, value: object) -> object:
    if isinstance(value, dict):
        return {name: MASK if _is_secret(name) else text for name, text in value.items()}
    if isinstance(value, tuple) and key.endswith((".args", ".command")):
        return _masked_words(value)
    return value


def _masked_words(words: tuple[str, ...]) -> list[str]:
    """An argv without what follows `--some-token`, `--some-token=`, `SOME_TOKEN=` or `Bearer`."""
    result: list[str] = []
    follows = False
    for word in words:
        name, equals, _ = word.partition("=")
        secret = _is_secret(name)
        if follows and not word.startswith("-"):
            result.append(MASK)
        elif secret and equals:
            result.append(f"{name}={MASK}")
        else:
            result.append(re.sub(_HEADER, rf"\1 {MASK}", word))
        follows = secret and not equals and word.startswith("-")
    return result


def _row(entry: Entry) -> list[str]:
    row = entry.row
    default = row.shown or f"`{shown(entry.default)}`"
    meaning = f"{row.meaning} (environment: {row.env})" if row.env else row.meaning
    return [part.replace("|", "\\|") for part in (f"`{entry.key}`", default, meaning, row.origin)]
