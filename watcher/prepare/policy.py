"""The configuration's numbers, as the rules want them."""

from __future__ import annotations

from datetime import timedelta, tzinfo

from watcher.config import Config
from watcher.decision.state import Policy
from watcher.environment import zone_named


def policy(config: Config, zone: tzinfo | None = None) -> Policy:
    """The configuration's numbers, as the rules want them."""
    limits, retries, watch = config.limits, config.retries, config.watch
    return Policy(
        stall_limit=watch.stall_limit,
        poke_limit=watch.poke_limit,
        hours=timedelta(hours=watch.hours) if watch.hours else None,
        cap_usd=watch.cap_usd or None,
        pause=timedelta(seconds=watch.pause_s),
        sentinel=watch.sentinel,
        reset_margin=timedelta(seconds=limits.reset_margin_s),
        fixed_wait=timedelta(seconds=limits.fixed_wait_s),
        far_reset=timedelta(days=limits.far_reset_days),
        far_probe=timedelta(seconds=limits.far_probe_s),
        stale_wait=timedelta(seconds=limits.stale_wait_s),
        error_first=timedelta(seconds=retries.error_first_s),
        error_max=timedelta(seconds=retries.error_max_s),
        error_limit=retries.error_limit,
        transient_first=timedelta(seconds=retries.transient_first_s),
        transient_max=timedelta(seconds=retries.transient_max_s),
        transient_limit=timedelta(hours=retries.transient_hours),
        human_every=timedelta(seconds=retries.human_every_s),
        human_limit=timedelta(hours=retries.human_hours),
        cap_limit=retries.cap_limit,
        context_limit=retries.context_limit,
        allow_paid_overage=config.agent.allow_paid_overage,
        agent=config.agent.profile,
        zone=zone or zone_named(config.agent.timezone),
        patterns=tuple((pattern.regex, pattern.kind) for pattern in limits.patterns),
    )
