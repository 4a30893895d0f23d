"""What looks like a secret: the forms in which services and programs write keys and tokens.

Only forms that say themselves what they are (a prefix, a length, a frame), so that a hit is nearly
always one. Limits: passwords in prose, tokens without a form, and what is compressed, encrypted,
split or encoded otherwise is not found.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

# What it is; texts one of which it must hold (looked for first, since that is fast); its form.
RULES: tuple[tuple[str, tuple[bytes, ...], bytes], ...] = (
    (
        "a private key",
        (b"PRIVATE KEY",),
        rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?s:.{0,300}?)[A-Za-z0-9+/]{40}",
    ),
    (
        "a PuTTY private key",
        (b"PuTTY-User-Key-File-",),
        rb"PuTTY-User-Key-File-[23]: (?s:.{0,500}?)Private-Lines: \d{1,6}\s{1,4}[A-Za-z0-9+/]{40}",
    ),
    ("an age key", (b"AGE-SECRET-KEY-",), rb"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("an AWS access key", (b"AKIA", b"ASIA", b"ABIA", b"ACCA"), rb"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    (
        "an AWS secret key",
        (b"ecret_access_key", b"SECRET_ACCESS_KEY", b"ecretAccessKey"),
        rb"(?i:secret_?access_?key)[\"']?\s{0,5}[=:]>?\s{0,5}[\"']?[A-Za-z0-9/+]{40}\b",
    ),
    ("a GitHub token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("a GitHub token", (b"github_pat_",), rb"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b"),
    (
        "a GitLab token",
        (b"glpat-", b"gldt-", b"glrt-", b"glptt-", b"glcbt-", b"glsoat-", b"gloas-"),
        rb"\bgl(?:pat|dt|rt|ptt|cbt|soat|oas)-[A-Za-z0-9_-]{20,}",
    ),
    ("an Anthropic key", (b"sk-ant-",), rb"\bsk-ant-[a-z]{3,12}\d{2}-[A-Za-z0-9_-]{80,}"),
    (
        "an OpenAI key",
        (b"T3BlbkFJ",),
        rb"\bsk-(?:[a-z]+-)?[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}",
    ),
    ("an OpenRouter key", (b"sk-or-v1-",), rb"\bsk-or-v1-[0-9a-f]{64}\b"),
    ("a Google API key", (b"AIza",), rb"\bAIza[A-Za-z0-9_-]{35}\b"),
    ("a Google client secret", (b"GOCSPX-",), rb"\bGOCSPX-[A-Za-z0-9_-]{28}\b"),
    ("a Google access token", (b"ya29.",), rb"\bya29\.[A-Za-z0-9_-]{60,}"),
    ("an Azure storage key", (b"AccountKey=",), rb"AccountKey=[A-Za-z0-9+/]{86}=="),
    (
        "an Azure client secret",
        (b"Q~",),
        rb"\b[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])",
    ),
    ("a DigitalOcean token", (b"dop_v1_", b"doo_v1_", b"dor_v1_"), rb"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    ("a Databricks token", (b"dapi",), rb"\bdapi[0-9a-f]{32}(?:-\d)?\b"),
    ("a Slack token", (b"xox",), rb"\bxox[abeoprs]-(?:\d-)?[A-Za-z0-9]{8,}-[A-Za-z0-9-]{10,}"),
    ("a Slack token", (b"xapp-",), rb"\bxapp-\d-[A-Z0-9]{8,}-\d{8,}-[0-9a-f]{40,}"),
    (
        "a Slack webhook",
        (b"hooks.slack.com/",),
        rb"hooks\.slack\.com/(?:services|workflows)/T[A-Za-z0-9_]{7,}/[A-Za-z0-9_]{8,}/[A-Za-z0-9_]{16,}",
    ),
    (
        "a Discord webhook",
        (b"/api/webhooks/",),
        rb"discord(?:app)?\.com/api/webhooks/\d{17,20}/[A-Za-z0-9_-]{60,}",
    ),
    ("a Telegram bot token", (b":AA",), rb"\b\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    ("a Stripe key", (b"k_live_",), rb"\b[sr]k_live_[A-Za-z0-9]{24,}"),
    ("a Square token", (b"sq0",), rb"\bsq0(?:csp|atp)-[A-Za-z0-9_-]{22,43}"),
    (
        "a Shopify token",
        (b"shpat_", b"shpca_", b"shppa_", b"shpss_"),
        rb"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b",
    ),
    ("a SendGrid key", (b"SG.",), rb"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("a Twilio key", (b"SK",), rb"\bSK[0-9a-f]{32}\b"),
    ("an npm token", (b"npm_",), rb"\bnpm_[A-Za-z0-9]{36}\b"),
    ("a PyPI token", (b"pypi-AgE",), rb"\bpypi-AgE[A-Za-z0-9_-]{70,}"),
    ("a RubyGems key", (b"rubygems_",), rb"\brubygems_[0-9a-f]{48}\b"),
    ("a Docker token", (b"dckr_",), rb"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    ("a Hugging Face token", (b"hf_",), rb"\bhf_[A-Za-z]{34}\b"),
    (
        "a HashiCorp token",
        (b"hvs.", b".atlasv1."),
        rb"\bhvs\.[A-Za-z0-9_-]{90,}|\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
    ),
    (
        "a Grafana token",
        (b"glc_", b"glsa_"),
        rb"\bglc_[A-Za-z0-9+/]{32,}={0,2}|\bglsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b",
    ),
    ("a Linear key", (b"lin_api_",), rb"\blin_api_[A-Za-z0-9]{40}\b"),
    ("a Postman key", (b"PMAK-",), rb"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    ("a New Relic key", (b"NRAK-",), rb"\bNRAK-[A-Z0-9]{27}\b"),
)
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # UTF-16, whose every second byte is nothing in these forms
_VARIETY = 8  # different bytes; fewer are a form to be filled in, as xxxxxxxx
_EXAMPLE = b"EXAMPLE"  # the end of the keys in Amazon's own manuals


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that looks like a secret. The secret itself is nowhere in it."""

    what: str
    line: int  # from 1
    fingerprint: str  # SHA-256 of its bytes, by which it can be allowed


def find(text: bytes) -> Iterator[Finding]:
    """Everything in the text that has the form of a secret."""
    if text.startswith(_WIDE):
        text = text.replace(b"\0", b"")
    for number, (what, hints, _) in enumerate(RULES):
        if not any(hint in text for hint in hints):
            continue
        for match in _form(number).finditer(text):
            secret = match.group()
            if len(set(secret)) >= _VARIETY and not secret.endswith(_EXAMPLE):
                line = text.count(b"\n", 0, match.start()) + 1
                yield Finding(what=what, line=line, fingerprint=hashlib.sha256(secret).hexdigest())


@functools.cache
def _form(number: int) -> re.Pattern[bytes]:
    return re.compile(RULES[number][2])  # when first needed: most commits need none
