"""What is wrong with the configuration, in words a person can act on."""

from __future__ import annotations


class ConfigError(Exception):
    """The configuration cannot be used. `str()` is one line: where, what is wrong, what to do.

    `usage` tells a bad command line or environment (exit 64) from a bad file or project (exit 78).
    """

    def __init__(
        self, message: str, *, where: str = "", key: str = "", line: int | None = None, usage: bool = False
    ) -> None:
        self.message = message
        self.where = where  # a file, "environment POKE_TIMEOUT", "command line", or "" when there is no place
        self.key = key  # dotted, "" when no single key is to blame
        self.line = line  # in that file, from 1
        self.usage = usage
        super().__init__(message)

    def __str__(self) -> str:
        place = f"{self.where}, line {self.line}" if self.line else self.where
        text = f"{place}: {self.message}" if place else self.message
        return "".join(letter if letter.isprintable() else "?" for letter in text)  # keys may hold anything
