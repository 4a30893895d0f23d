"""What a simulated month comes to: three numbers that must hold, and where the lost time went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.provider import HOUR, Refusal
from tests.simulation.shifts import Played

Spans = list[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Hours are agent hours: an hour of ten projects is ten."""

    possible_h: float
    useful_h: float
    pokes: int
    limits: int
    wasted_most: int  # of any one window
    wasted_all: int
    resets: int  # those a gap was measured after
    gap_s: float  # the longest
    gap_mean_s: float
    lost_h: dict[str, float]  # by what the shift was doing

    @property
    def share(self) -> float:
        return self.useful_h / self.possible_h

    def __str__(self) -> str:
        lost = sorted(self.lost_h.items(), key=lambda entry: -entry[1])
        return " | ".join(
            (
                f"{self.share:.3%} of {self.possible_h:.0f} h used",
                f"wasted pokes: at most {self.wasted_most} a window, {self.wasted_all} in {self.limits}",
                f"gap after {self.resets} resets: at most {self.gap_s:.0f} s, mean {self.gap_mean_s:.0f} s",
                f"{self.pokes} pokes",
                "hours lost: " + ", ".join(f"{what} {hours:.2f}" for what, hours in lost),
            )
        )


def figures(played: Played) -> Figures:
    """Possible is every second in which the account had quota, its provider was up and the machine was on.

    Useful is that part of it in which an agent worked; a turn granted before the quota was used up counts
    only up to that moment.
    """
    available = availability(played)
    useful, lost = 0.0, defaultdict[str, float](float)
    worked: dict[str, Spans] = {name: [] for name in played.diaries}
    for turn in played.provider.turns:
        worked[turn.project].append((turn.begin, turn.end))
    for name, diary in played.diaries.items():
        granted = common(available, union(worked[name]))
        useful += length(granted)
        labels = {label for _, _, label in diary.spans}
        for label in labels:
            doing = common(available, union((b, e) for b, e, what in diary.spans if what == label))
            lost[label] += (length(doing) - length(common(doing, granted))) / HOUR
    gaps = list(gaps_after_resets(played))
    wasted = wasted_pokes(played)
    return Figures(
        possible_h=length(available) * len(played.diaries) / HOUR,
        useful_h=useful / HOUR,
        pokes=sum(played.outcomes.values()),
        limits=len(played.provider.used_up),
        wasted_most=max(wasted, default=0),
        wasted_all=sum(wasted),
        resets=len(gaps),
        gap_s=max(gaps, default=0.0),
        gap_mean_s=sum(gaps) / max(len(gaps), 1),
        lost_h={what: round(hours, 2) for what, hours in lost.items() if hours >= 0.005},
    )


def limited(played: Played) -> Spans:
    return union((quota.used_up_at or 0.0, quota.lift) for quota in played.provider.used_up)


def availability(played: Played) -> Spans:
    """When an agent could have worked."""
    troubled = [(each.begin, each.end) for each in played.provider.troubles]
    never = union([*limited(played), *troubled, *played.world.off])
    return complement(never, played.begin, played.world.end)


def gaps_after_resets(played: Played) -> Iterable[float]:
    """From each reset until some project works again, but for those that fall into trouble or a hang."""
    troubles = union([*((each.begin, each.end) for each in played.provider.troubles), *played.provider.hung])
    turns = iter(played.provider.turns)  # in the order of time
    turn = next(turns, None)
    for _, end in limited(played):
        begin = next((on for since, on in played.world.off if since <= end < on), end)
        while turn is not None and turn.begin < begin:
            turn = next(turns, None)
        until = turn.begin if turn is not None else played.world.end
        if begin < played.world.end - HOUR and not common(troubles, [(begin, until)]):
            yield until - begin


def wasted_pokes(played: Played) -> list[int]:
    """For each limit: the pokes that met only a refusal, but for the one that found it.

    A poke that had begun before the first refusal was told could not know, whatever the policy.
    """
    told: dict[int, list[Refusal]] = {}
    for refusal in played.provider.refusals:
        told.setdefault(id(refusal.quota), []).append(refusal)
    return [
        sum(each.turns == 0 and each.begun > refusals[0].ended for each in refusals)
        for refusals in told.values()
    ]


# --- spans of time ------------------------------------------------------------------------------


def union(spans: Iterable[tuple[float, float]]) -> Spans:
    merged: Spans = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > begin:
            merged.append((begin, end))
    return merged


def complement(spans: Spans, begin: float, end: float) -> Spans:
    free, at = [], begin
    for since, until in spans:
        if since > at:
            free.append((at, min(since, end)))
        at = max(at, until)
    return [*free, (at, end)] if at < end else [(a, b) for a, b in free if b > a]


def common(one: Spans, two: Spans) -> Spans:
    """What lies in both; each sorted and without overlaps."""
    found, i, j = [], 0, 0
    while i < len(one) and j < len(two):
        begin, end = max(one[i][0], two[j][0]), min(one[i][1], two[j][1])
        if begin < end:
            found.append((begin, end))
        if one[i][1] < two[j][1]:
            i += 1
        else:
            j += 1
    return found


def length(spans: Spans) -> float:
    return sum(end - begin for begin, end in spans)
