"""The agreed word that says the task list is done (H 3, 5.2, 15.1)."""

from __future__ import annotations

CONTROL = "".join(map(chr, (*range(32), 127)))
MARKUP = CONTROL + " \t\r\u00a0*_`~\"'“”‘’#>-.!:"


def says(text: str, sentinel: str) -> bool:
    """True when one whole line is the sentinel, give or take markup around it.

    A mention in prose counts for nothing: the instruction itself holds the word, and an agent
    that quotes or negates it must not end the run (H 6.3).
    """
    return any(line.strip(MARKUP) == sentinel.strip(MARKUP) for line in text.splitlines())
