"""A program's output as plain text: no colours, no exotic spaces, no escapes, bounded length."""

from __future__ import annotations

import re

HEAD_CHARS = 8_000  # a message is a few hundred characters; a tail of stderr may hold several
TAIL_CHARS = 16_000
WIDTH_LEAST = 30  # of a terminal; short lines may be as long by chance

_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNICODE_ESCAPE = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
_NEWLINE_ESCAPE = re.compile(r"\\{1,8}[nr]")
_QUOTE_ESCAPE = re.compile(r"\\{1,8}([\"'/])")
# UTF-8 read as cp1252 and written again: what a Windows console makes of the separators.
_MOJIBAKE = (
    ("â€™", "'"),
    ("â€˜", "'"),
    ("â€œ", '"'),
    ("â€\x9d", '"'),
    ("â€¢", "·"),
    ("â€“", "-"),
    ("â€”", "-"),
    ("â€¦", "…"),
    ("âˆ™", "·"),
    ("â\x88\x99", "·"),
    ("â‹…", "·"),
    ("Â·", "·"),
    ("Â\xa0", " "),
    ("â€¯", " "),
    ("\u00e2\u20ac\u00af", " "),
)
_ONE_SPELLING: dict[str, str] = {
    "’‘ʼ‛´＇": "'",
    "“”„": '"',
    "∙•‧⋅・●◦": "·",
    "–—―‒‐‑−": "-",
    "\xa0\u202f\u2007\u2009\u200a\u2002\u2003\u3000\u205f\t": " ",
    "\u200b\u200c\u200d\u2060\ufeff\u200e\u200f\xad": "",
    "\u2028\u2029\x85": "\n",
    "：": ":",
    "，": ",",
    "（": "(",
    "）": ")",
    "＋": "+",
}
_SAME: dict[int, str] = {ord(each): right for wrong, right in _ONE_SPELLING.items() for each in wrong}
_SAME |= dict.fromkeys((*range(0x2500, 0x25A0), 0x23BF), " ")  # the frames of terminal programs
_SAME |= dict.fromkeys((*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F), "")
_SAME |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")  # halves of cut characters cannot be written


def plain(text: str) -> str:
    """`text` in the one spelling the patterns know; its middle is dropped where it is very long."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = text[:HEAD_CHARS] + "\n" + text[-TAIL_CHARS:]
    text = _ANSI.sub("", text)
    for wrong, right in _MOJIBAKE:
        if wrong in text:
            text = text.replace(wrong, right)
    if "\\" in text:
        text = _UNICODE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
        text = _NEWLINE_ESCAPE.sub("\n", text)
        text = _QUOTE_ESCAPE.sub(r"\1", text)
    return _unwrapped(text.replace("\r\n", "\n").replace("\r", "\n").translate(_SAME))


def _unwrapped(text: str) -> str:
    """Undo a terminal's wrapping by width: it cuts anywhere, and all lines but the last are as long."""
    *full, last = text.split("\n")
    widths = {len(line) for line in full}
    if len(full) > 1 and len(widths) == 1 and len(last) <= (width := widths.pop()) and width >= WIDTH_LEAST:
        return "".join((*full, last))
    return text


def joined(text: str) -> str:
    """One line: a terminal may have wrapped a message anywhere."""
    return " ".join(text.split())
