"""The environments we hand to others: built from nothing, never inherited (DESIGN 4, 7.1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from watcher.config.schema import Agent
from watcher.process import Account

# A key in the environment silently moves a subscriber to metered billing, so keys stay out unless
# the configuration names them.
API_KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
)
# What a program of the same user needs to find its login, its network and its language.
SAME_USER = (
    *("LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "SHELL", "TMPDIR"),
    *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
    *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CODEX_HOME"),
)
EVERY_USER = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def agent_env(agent: Agent, account: Account | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The agent's whole environment: who it is, where its tools are, its zone, and what is configured."""
    passed = [*EVERY_USER, *agent.pass_env]
    if account is None:
        passed += SAME_USER
    if agent.keep_api_keys:
        passed += API_KEYS
    if agent.sandbox != "none":  # where /tmp and /run are others than those they name
        passed = [name for name in passed if name not in ("TMPDIR", "XDG_RUNTIME_DIR")]
    env = {name: environ[name] for name in passed if name in environ}
    env |= _who(account, environ)
    env["TERM"] = "dumb"
    env["TZ"] = agent.timezone or zone_name(environ)
    return env | dict(agent.env)


def tool_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the user's own tools (publishing, notifying): ours, less what is not theirs."""
    return {
        name: value
        for name, value in environ.items()
        if name not in API_KEYS and not name.startswith("NOTIFY_")
    }


def billing_mode(env: Mapping[str, str]) -> str:
    """Who pays, as far as the environment tells; no credential is read."""
    if key := next((name for name in API_KEYS if name in env), ""):
        return f"metered: {key} is set for the agent"
    if "CLAUDE_CODE_OAUTH_TOKEN" in env:
        return "subscription, by token"
    return "the program's own login"


def zone_name(environ: Mapping[str, str]) -> str:
    """The system's zone by name: TZ, else what /etc/localtime points at, else UTC."""
    if name := environ.get("TZ", "").lstrip(":"):
        return name
    target = os.path.realpath("/etc/localtime")
    return target.partition("/zoneinfo/")[2] or "UTC"


def zone_named(name: str) -> tzinfo:
    """The zone the agent prints its times in. An unknown TZ of the machine is read as UTC."""
    try:
        return ZoneInfo(name or zone_name(os.environ))
    except (KeyError, ValueError, OSError):
        return UTC


def _who(account: Account | None, environ: Mapping[str, str]) -> dict[str, str]:
    if account is not None:
        local = str(Path(account.home) / ".local" / "bin")
        return {
            "HOME": account.home,
            "USER": account.name,
            "LOGNAME": account.name,
            "PATH": f"{local}:{PLAIN_PATH}",
        }
    own = {name: environ[name] for name in ("HOME", "USER", "LOGNAME", "PATH") if name in environ}
    own.setdefault("PATH", PLAIN_PATH)
    return own
