"""Every scenario of the reference watcher, by the facts that must come of it.

The table is `reference_a.py` (progress), `_b` (limits), `_c` and `_c_forms` (answers), `_d` (git),
`_e` (start) and `_f` (processes); what a row says is explained in `reference_row.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import (
    reference_a,
    reference_b,
    reference_c,
    reference_c_forms,
    reference_d,
    reference_e,
    reference_f,
)
from tests.conformance.reference_drive import in_process, model, scene
from tests.conformance.reference_row import Form, Row

ROWS: tuple[Row, ...] = tuple(
    row
    for table in (
        reference_a,
        reference_b,
        reference_c,
        reference_c_forms,
        reference_d,
        reference_e,
        reference_f,
    )
    for row in table.ROWS
)
# The scenarios of the reference whose words we have. Each must have a row that is not a guess.
NUMBERS = {
    "A": (1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 21, 22, 23),
    "B": (3, 5, 6, 7, 10, 11, 13, 15, 17, 18, 19, 20, 22, 23, 25, 27, 28, 29, 31, 33, 36, 37),
    "C": (
        *(1, 3, 5, 6, 7, 9, 10, 11, 12, 13, 16, 18, 20, 22, 24, 25, 26, 27, 28, 29, 31, 32),
        *(35, 37, 38, 39, 41, 43, 44, 45, 46, 47, 51, 54, 55, 56, 59, 60),
    ),
    "D": (1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 14, 16, 17, 20, 21, 25),
    "E": (1, 3, 5, 6, 7, 8, 9, 11),
    "F": (1, 3, 6, 7, 9, 10, 11, 12, 13, 14, 18, 19, 21, 24),
}
KNOWN = {f"{letter}{number:02}" for letter, numbers in NUMBERS.items() for number in numbers}

CASES = [
    pytest.param(
        row, form, id=row.id + (f"-{form.name.lower()}" if form is not row.forms[0] else ""), marks=row.marks
    )
    for row in ROWS
    for form in row.forms
]


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory for one row; pytest's own are closed to the second user of some."""
    if request.node.get_closest_marker("root") is None:
        yield tmp_path
        return
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.mark.parametrize(("row", "form"), CASES)
def test_a_scenario_of_the_reference(
    row: Row, form: Form, original: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit code, conversations, waits, updates of the remote and what stayed local are the row's."""
    stage = scene(row, original, place)
    facts, seen = (row.drive or in_process)(row, form, stage)
    seen.refused += capfd.readouterr().err
    assert facts == row.facts, row.scenario
    if row.also:
        row.also(seen)


def test_every_scenario_has_a_row() -> None:
    assert len(KNOWN) == 112
    assert {row.id for row in ROWS if not row.inferred} >= KNOWN


def test_no_scenario_has_two_rows() -> None:
    assert [id for id, times in Counter(row.id for row in ROWS).items() if times > 1] == []
