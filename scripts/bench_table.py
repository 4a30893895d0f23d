"""Print: each figure of ours beside its baseline of the same run, as a ratio, and beside its budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. Of the two budgets, one is of the figure itself, one of its ratio to the baseline."""

    what: str
    ours: float
    unit: str = "ms"
    baseline: float | None = None
    against: str = ""  # what the baseline is
    budget: float | None = None
    ratio_budget: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.baseline if self.baseline else None

    @property
    def verdict(self) -> str:
        """A word, never an exit code: another machine, or a busy one, has other figures."""
        over = (self.budget is not None and self.ours > self.budget) or (
            self.ratio_budget is not None and self.ratio is not None and self.ratio > self.ratio_budget
        )
        return "" if self.budget is None and self.ratio_budget is None else "OVER" if over else "within"

    def cells(self) -> tuple[str, ...]:
        limit = f"{_number(self.budget)} {self.unit}" if self.budget is not None else ""
        limit = f"{self.ratio_budget:g} x" if self.ratio_budget is not None else limit
        return (
            self.what,
            f"{_number(self.ours)} {self.unit}",
            "" if self.baseline is None else f"{_number(self.baseline)} {self.unit}",
            "" if self.ratio is None else f"{self.ratio:.2f} x",
            limit and f"<= {limit}",
            self.verdict,
            self.against,
        )


def table(title: str, rows: Sequence[Row]) -> str:
    """The rows with aligned columns under a head line."""
    head = (title, "ours", "baseline", "ratio", "budget", "", "the baseline is")
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n" + "\n".join(_aligned(line, widths) for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    figures = [f"{cell:>{width}}" for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
    return "  ".join((f"{line[0]:<{widths[0]}}", *figures, line[-1])).rstrip()


def _number(value: float) -> str:
    """Three digits, or all of a whole number."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def machine() -> str:
    """What the figures were taken on, and what else keeps it busy."""
    model = "an unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {os.cpu_count()} CPUs, kernel {os.uname().release}, load {load()}"


def load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())
