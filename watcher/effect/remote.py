"""The remote: where it is, what lets us in, and whose rights the other end has (DESIGN 7.3).

URL and keys come from our configuration alone; git's own configuration, root's above all, is never
read for them (quarantine.py), and nothing ever asks a person.
"""

from __future__ import annotations

import base64
import os
import pwd
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from watcher.effect.git import GitError, settings
from watcher.log import printable
from watcher.process import Account

PROTOCOLS = "file:git:http:https:ssh"  # `ext` would be a command line, any other name a program

_AS_USER = Path(__file__).parents[1] / "process" / "as_user.py"
_MOST_TOKEN = 8192  # bytes
_SSH = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ForwardAgent=no", "-o", "ForwardX11=no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """One branch of one repository elsewhere."""

    url: str
    branch: str  # published to
    source: str = ""  # the project's own branch, where that is another: what it holds there is not new
    account: Account | None = None  # whose rights the other end has, on this machine; None: ours
    ssh_key: str = ""
    token_file: str = ""
    ssh_agent: str = ""  # the socket of an agent with the user's own keys

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def __str__(self) -> str:
        return shown(self.url)

    def access(self) -> dict[str, str]:
        """What lets us in, as environment variables. Raises GitError where the token cannot be used."""
        ssh = ["ssh", *_SSH]
        if self.ssh_key:
            ssh += [
                "-F",
                "/dev/null",
                "-i",
                self.ssh_key,
                "-o",
                "IdentitiesOnly=yes",
                "-o",
                "IdentityAgent=none",
            ]
        env = {"GIT_SSH_COMMAND": shlex.join(ssh), "GIT_SSH_VARIANT": "ssh"}
        if self.ssh_agent and not self.ssh_key:
            env["SSH_AUTH_SOCK"] = self.ssh_agent
        if self.token_file:
            name = f"http.{self.url}.extraHeader"  # only ever sent to this URL
            env |= settings({name: f"Authorization: Basic {_basic(self.token_file)}"})
        return env

    def far_end(self, program: str, path: str) -> tuple[str, ...]:
        """The option that makes git start the other end with its owner's rights; () where it has ours.

        git hands the words to a shell, so each is quoted; the repository's path it adds itself, quoted too.
        """
        if self.account is None:
            return ()
        who = self.account
        words = [sys.executable, "-I", "-S", str(_AS_USER), str(who.uid), str(who.gid)]
        words += [",".join(map(str, who.groups)), who.home, who.name, path, program]
        option = "--receive-pack" if program == "git-receive-pack" else "--upload-pack"
        return (f"{option}={shlex.join(words)}",)


def local_path(url: str) -> str:
    """The directory on this machine that a URL names, "" where it names another machine."""
    if url.startswith("file://"):
        return unquote(url.removeprefix("file://"))
    before, colon, _ = url.partition(":")
    return "" if colon and "/" not in before else url


def shown(url: str) -> str:
    """A URL without what might be a password, safe to print."""
    return printable(re.sub(r"^([a-z0-9+.-]+://)[^/@]*@", r"\1", url, flags=re.IGNORECASE))


def owner_of(path: str) -> Account | None:
    """Who should be at the other end of a remote on this machine, for a harness that is root.

    The first on the way there who is not root: that user could put another directory in its place,
    and would have root's rights in it. None: root alone, or the harness is not root anyway.
    """
    if os.geteuid() != 0:
        return None
    place = Path(os.path.abspath(path))
    for part in (*reversed(place.parents), place):
        try:
            uid = os.lstat(part).st_uid
        except OSError:
            return None  # git will say so
        if uid != 0:
            return account_of(uid)
        real = os.path.realpath(part)
        if os.path.islink(part) and real != str(part):
            return owner_of(os.path.join(real, os.path.relpath(place, part)))
    return None


def account_of(uid: int) -> Account:
    """A user by number, also one without a name."""
    try:
        return Account.of(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return Account(uid=uid, gid=uid, groups=(), home="/nonexistent", name=str(uid))


def token_trouble(path: str) -> str:
    """Why the file of a token cannot be used, "" where it can."""
    try:
        _token(path)
    except GitError as error:
        return str(error)
    return ""


def _basic(path: str) -> str:
    token = _token(path)
    pair = token if ":" in token else f"x-access-token:{token}"  # forges take any name beside a token
    return base64.b64encode(pair.encode()).decode()


def _token(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise GitError(f"the token in {path} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        text = os.read(descriptor, _MOST_TOKEN).decode("utf-8", "replace").strip()
    except OSError as error:
        raise GitError(f"the token in {path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o077:
        raise GitError(f"others can read or change the token in {path}: chmod 600, and make it yours (chown)")
    if not text or not text.isprintable() or " " in text:
        raise GitError(f"{path} must hold one line: a token, or USER:TOKEN")
    return text


def isolated(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The whole environment of our own git: no configuration but our own is read, nobody is asked."""
    passed = ("PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
    env = {name: environ[name] for name in (*passed, "SSL_CERT_FILE", "SSL_CERT_DIR") if name in environ}
    return {
        "PATH": os.defpath,
        **env,
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_DEFAULT_REF_FORMAT": "files",
    }
