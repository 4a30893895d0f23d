"""Tell a program's own sentence from talk about such sentences (DESIGN 4).

The same words stand in an error, in a warning that work goes on, and in what an agent writes about
its task. A program puts them at the start of a clause, after nothing but the usual prefixes; talk
quotes them, makes them a condition, or goes on about them.
"""

from __future__ import annotations

import re

from watcher.decision.text_kinds import compiled

_I = re.IGNORECASE


def _words(*groups: str) -> str:
    """Alternatives from words separated by blanks; an underscore is a blank inside one."""
    return "|".join(word.replace("_", r"\s") for group in groups for word in group.split())


_SEPARATOR = re.compile(r"[:·|\])(\[\"'!;,>\n={}…*-]|\. ")
# What programs put before an error with no mark between: names, numbers, codes, signs.
_LEAD = (
    "(?:"
    + _words(
        "error errors err fatal warning api failed failure request rejected http https status code type",
        "message detail details reason last unexpected execution attempt provider llm stream exception",
        "turn agent server model response by from received got caused and the your this a an",
        "claude ai codex gemini copilot cursor qwen kimi droid amp grok opencode openai anthropic google",
        "max pro team plus ⚠ ✗ ❌ × ✖ └ ↻ !",
    )
    + r"|[a-z]*(?:error|exception|failed)|(?-i:[A-Z0-9_]{2,})|[\d./#%-]+|[a-z0-9_.-]*[0-9][a-z0-9_.-]*)"
)
_TALK_BEFORE = (
    r"\b(?:"
    + _words(
        "prints? printed says? said saying shows? showed mentions? mentioned quotes? quoted docs?",
        "documentation documents? example such_as (?<!error\\s)when(?:ever)? if unless in_case once would",
        "could might may will should can let const var assert expect grep regex pattern tests? fixture",
        "banner detects?",
        "detected handles? handled parses? parsed matches classif\\w+ like instead_of about i we he she they",
        "string approaching close_to near(?:ly|ing)? almost before_you until_you added fixed implemented",
        "refactored wrote committed",
    )
    + r")\b|`|e\.g\.|\b(?:fix|feat|chore|docs)(?:\(|:)|[\u3400-\u9fff]$|\bdef |==|=>"
)
_TALK_AFTER = (
    r"\s?(?:`|→|->|=>|[\u3400-\u9fff]|(?:"
    + _words(
        "are banners? messages? errors? texts? handling handlers? detection detectors? modules? logic",
        "middlewares? tests? class(?:es)? functions? strings? exceptions?_(?:is|was|were) when means should",
        "responses?_(?:is|was|were) is_(?:the|a|an|printed|shown|handled|now) was_(?:added|fixed) would",
    )
    + r")\b)"
)
_CHINESE = re.compile(r"[\u3400-\u9fff]")
# Somebody speaks of his work: then a sentence that is not plainly an error is part of the tale.
_TALE = re.compile(
    r"\bI\b|\b(?:[Ww]e|[Ll]et's|[Tt]ests?|CI|PR|commits?|module|function|refactor\w*)\b|`|\.(?:py|ts|js|md)\b"
)
_MILD = re.compile(
    r"(?<![\d.])\d{1,2}(?:\.\d{1,3})?\s?%|\bapproaching\b|\bnow using\b|\bswitch(?:ed|ing) to\b"
    r"|\b(?:could|might|may|will soon|about to|going to) (?:hit|reach|exceed)\b"
    r"|\bfall(?:ing|en)? back to\b|\bclose to\b.{0,20}limit|\bcontinuing with\b|\bstill (?:have|has)\b",
    _I,
)
_QUOTE = re.compile(r"[\"'`][^\"'`\n]{0,24}$")
_FIELD = re.compile(r"[A-Za-z_]+[\"']?\s?[:=]\s?$")
_CODE = re.compile(r"\b(?:const|let|var|assert|expect|grep|regex|pattern|prints?|says?)\b", _I)


def is_statement(text: str, start: int, end: int, *, tale: bool) -> bool:
    """Whether text[start:end] stands where a program states an error.

    `tale`: the text may be somebody's account of his work, so vague leads need a clean text.
    """
    if is_talk(text, start, end):
        return False
    prefix, last = _prefix(text, start), 0
    for separator in _SEPARATOR.finditer(prefix):
        last = separator.end()
    words = prefix[last:].split()
    if all(compiled(_LEAD).fullmatch(word) for word in words):
        return len(words) <= 6
    return len(words) <= 5 and not (tale and _TALE.search(text))


def is_talk(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] is quoted, conditional, or the subject of a longer sentence."""
    if text.count("```", 0, start) % 2:
        return True  # inside a quoted block
    goes_on = compiled(_TALK_AFTER).match(text, end) and not _CHINESE.match(text[end - 1])
    return bool(goes_on) or compiled(_TALK_BEFORE).search(_prefix(text, start)) is not None


def _prefix(text: str, start: int) -> str:
    """What stands before on the same line."""
    return text[max(text.rfind("\n", 0, start) + 1, start - 160) : start]


def is_mild(text: str, start: int, end: int) -> bool:
    """Whether the line says that work goes on: a percentage below 100, a warning, a fallback."""
    begin = max(text.rfind("\n", 0, start) + 1, start - 200)
    stop = text.find("\n", end)
    return _MILD.search(text[begin : min(stop if stop >= 0 else len(text), end + 100)]) is not None


def is_value(text: str, start: int) -> bool:
    """Whether words that may stand anywhere are not quoted, or are the value of a field."""
    prefix = text[max(0, start - 60) : start]
    quote = _QUOTE.search(prefix)
    if quote is None:
        return not _CODE.search(prefix)
    return _FIELD.search(prefix[: quote.start()]) is not None
