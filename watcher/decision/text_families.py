"""The order in which the families of messages are tried: the first that fits decides.

What names its cause most exactly comes first: a throttle that says which limit it is not, a full
conversation, a lost session; then quotas before money (a limit may mention credits), money before
login, and the vague words of services and networks last.
"""

from __future__ import annotations

from watcher.decision.text_faults import ACCESS, CONVERSATION, SERVICE
from watcher.decision.text_kinds import Family
from watcher.decision.text_quota import DENIALS, QUOTAS, THROTTLES

FAMILIES: tuple[Family, ...] = (*DENIALS, *CONVERSATION, *QUOTAS, *ACCESS, *THROTTLES, *SERVICE)
