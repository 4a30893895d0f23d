"""What keeps commits from being published: a sequence of checks, each a sentence or "" (DESIGN 7.3).

A gate is one more check: it is given the commits and the repository they are in, and says why not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from watcher.effect.new_commits import NewCommits
from watcher.effect.secrets import Finding, find
from watcher.log import printable

Check = Callable[[NewCommits], str]

MB = 10**6  # bytes, as forges count

_NAMED = 3  # findings that are named, the rest is counted
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def checks(
    *, max_file_mb: int, protected: Sequence[str], allowed_secrets: Sequence[str]
) -> tuple[Check, ...]:
    """The checks of every publication, in their order."""
    most = max_file_mb * MB
    found = [oversized(most)]
    if protected:
        found.append(untouched(protected))
    return (*found, no_secrets(allowed_secrets, most))


def oversized(most: int) -> Check:
    """Refuse files of more than `most` bytes: what is once in a history makes every clone as large."""

    def check(new: NewCommits) -> str:
        found = [
            f"{where(content.commit, content.path)} has {content.size / MB:.1f} MB"
            for content in new.contents(most)
            if content.size > most
        ]
        if not found:
            return ""
        return (
            f"{some(found)}; publish.max_file_mb allows {most / MB:g}. A later commit that deletes it "
            "changes nothing: rewrite the commits without it (git rebase -i), or raise the limit"
        )

    return check


def untouched(globs: Sequence[str]) -> Check:
    """Refuse commits that change a protected path, also where a later one changes it back."""
    patterns = [glob(pattern) for pattern in globs]

    def check(new: NewCommits) -> str:
        found: dict[str, str] = {}
        for change in reversed(new.changes):
            if any(pattern.fullmatch(change.path) for pattern in patterns):
                found.setdefault(change.path, change.commit)
        if not found:
            return ""
        places = some([where(commit, path) for path, commit in found.items()])
        return (
            f"publish.protected_paths protects {places}, which would be changed. A person must push "
            "such a change; or rewrite the commits without it (git rebase -i)"
        )

    return check


def no_secrets(allowed: Sequence[str], most: int) -> Check:
    """Refuse what looks like a password, key or token, in any file, name or message of any commit.

    `allowed` holds fingerprints of findings, and globs of paths. Files beyond `most` bytes are not read.
    """
    known = {entry for entry in allowed if _FINGERPRINT.fullmatch(entry)}
    free = [glob(entry) for entry in allowed if entry not in known]

    def is_meant(finding: Finding, path: str) -> bool:
        return finding.fingerprint in known or any(pattern.fullmatch(path) for pattern in free)

    def check(new: NewCommits) -> str:
        found: dict[str, str] = {}
        for commit, path, text in texts(new, most):
            for finding in find(text):
                if not is_meant(finding, path):
                    what = f"{finding.what} in {where(commit, path)}, line {finding.line}"
                    found.setdefault(finding.fingerprint, what)
        if not found:
            return ""
        named = ", ".join(f'"{fingerprint}"' for fingerprint in list(found)[:_NAMED])
        return (
            f"this looks like a secret: {some(list(found.values()))}. Whoever fetches could read it, "
            "also after a later commit deletes it: revoke it, and rewrite the commits without it "
            f"(git rebase -i). If it is none: publish.allow_secrets = [{named}]"
        )

    return check


def texts(new: NewCommits, most: int) -> Iterable[tuple[str, str, bytes]]:
    """All that would become readable: commit, path ("" for the commit itself), content."""
    for content in new.contents(most):
        if content.data is not None:
            yield content.commit, content.path, content.data
    for change in new.changes:
        yield change.commit, change.path, change.path.encode("utf-8", "surrogateescape")


def where(commit: str, path: str) -> str:
    """A place in the history, safe to print."""
    return f"{printable(path)} (commit {commit[:10]})" if path else f"the message of commit {commit[:10]}"


def some(found: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def glob(pattern: str) -> re.Pattern[str]:
    """A glob over whole paths: `*` and `?` stay within a directory, `**` does not, `dir/` is all below it.

    One without a slash fits at any depth. Upper and lower case are the same, as for some file systems.
    """
    if pattern.endswith("/"):
        pattern += "**"
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("/"))
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        "".join(words.get(part) or re.escape(part) for part in parts), re.IGNORECASE | re.DOTALL
    )
