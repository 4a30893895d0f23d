"""What the agent costs the machine right now: its processes, their memory (H 8)."""

from __future__ import annotations


def burden(harness: int) -> str:
    """The processes below that harness and what they hold in memory; "" where they cannot be seen.

    Asked only while a poke is running, since psutil takes longer to import than all the rest.
    """
    import psutil

    try:
        below = psutil.Process(harness).children(recursive=True)
    except psutil.Error:
        return ""
    sizes = []
    for process in below:
        try:
            sizes.append(process.memory_info().rss)
        except psutil.Error:  # it ended meanwhile, or belongs to somebody we may not ask about
            continue
    if not sizes:
        return ""
    return f"{len(sizes)} process{'es' if len(sizes) > 1 else ''}, {sum(sizes) / 1e6:.0f} MB"
