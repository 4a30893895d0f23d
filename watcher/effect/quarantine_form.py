"""The form of publisher.git: its one configuration, and how it is recognised as still ours."""

from __future__ import annotations

import os
import stat
from pathlib import Path

CONFIG = """\
# Written by the harness, which believes no other content.
[core]
	repositoryFormatVersion = {version}
	bare = true
	hooksPath = /dev/null
	fsmonitor = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	useReplaceRefs = false
	logAllRefUpdates = false
	commitGraph = false
	multiPackIndex = false
	bigFileThreshold = 16m
[extensions]{extensions}
[transfer]
	fsckObjects = true
[gc]
	auto = 0
[maintenance]
	auto = false
[fetch]
	recurseSubmodules = no
	writeCommitGraph = false
[push]
	default = nothing
	followTags = false
	recurseSubmodules = no
	gpgSign = false
[submodule]
	recurse = false
[credential]
	helper =
[http]
	followRedirects = false
[log]
	showSignature = false
	showRoot = true
"""
_ENTRIES = {"HEAD", "config", "objects", "refs"}
_FIXED = ("HEAD", "config", "objects", "objects/info", "objects/pack", "refs")
_LOOSE = 500  # loose objects in one of 256 directories, beyond which a new start is cheaper


def config(like: str) -> bytes:
    """The whole configuration; the length of an object name tells which kind of names there are."""
    if len(like) == 64:
        return CONFIG.format(version=1, extensions="\n\tobjectFormat = sha256").encode()
    return CONFIG.format(version=0, extensions="").encode()


def is_intact(path: Path, like: str) -> bool:
    """Whether it is there, ours alone, and as we made it.

    Where harness and agent share a user an agent could have been in it: a planted configuration, hook,
    alternate or link is answered by making it anew.
    """
    try:
        status = os.lstat(path)
        entries = {name for name in os.listdir(path) if not name.startswith("incoming.")}
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return False
        if entries != _ENTRIES or any(os.path.islink(path / name) for name in _FIXED):
            return False
        if os.listdir(path / "objects" / "info"):  # an alternate would bring foreign objects in
            return False
        return (path / "config").read_bytes() == config(like) and not _is_full(path)
    except OSError:
        return False


def _is_full(path: Path) -> bool:
    """Whether so many loose objects have come together that every look costs more than a new start."""
    try:
        return len(os.listdir(path / "objects" / "17")) > _LOOSE
    except FileNotFoundError:
        return False
