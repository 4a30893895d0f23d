"""The checkpoint is believed only when it is whole, and a damaged one is kept (A, "Checkpointing")."""

from __future__ import annotations

import hashlib
import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import orjson
import pytest

from watcher.record.checkpoint import Checkpoint, CheckpointDamaged, Refusal, frame, load, save
from watcher.record.files import Disk, RecordError


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    verify: str = ""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As the night's: a queue, what is done, money, an instant, text of the agent's."""

    step: int
    queue: tuple[Task, ...] = ()
    completed: tuple[Task, ...] = ()
    spent_usd: float = 0.0
    deadline_at: datetime | None = None
    note: str = ""


STATE = State(
    step=34,
    queue=tuple(Task(name=f"t_{n}", verify="pytest -q 'tests/é'") for n in range(34, 40)),
    completed=tuple(Task(name=f"t_{n}") for n in range(34)),
    spent_usd=11.4,
    deadline_at=datetime(2026, 7, 30, 7, tzinfo=UTC),
    note='a "quoted" \\ word, a tab\t, an escape \x1b[0m, 漢字, \U0001f319',
)
BATCHES = range(20)  # of 100 damages each: 2,000 of a kind
BATCH = 100


def checkpoint(place: Path, version: int = 3) -> Checkpoint[State]:
    return Checkpoint(place / "checkpoint.json", State, schema_version=version)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    ours = checkpoint(tmp_path_factory.mktemp("whole"))
    ours.save(STATE)
    return ours.path.read_bytes()


def test_a_state_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    assert checkpoint(tmp_path).load() is None
    checkpoint(tmp_path).save(STATE)
    assert checkpoint(tmp_path).load() == STATE
    assert os.listdir(tmp_path) == ["checkpoint.json"]


def test_the_file_is_the_frame_of_the_seed_readable_by_the_standard_library(whole: bytes) -> None:
    framed = json.loads(whole)
    assert set(framed) == {"sha256", "body"}
    assert hashlib.sha256(framed["body"].encode()).hexdigest() == framed["sha256"]
    assert json.loads(framed["body"])["schema_version"] == 3
    assert json.loads(framed["body"])["state"]["step"] == 34


@pytest.mark.parametrize("seed", BATCHES, ids="seed={}".format)
def test_a_checkpoint_cut_anywhere_is_refused(tmp_path: Path, whole: bytes, seed: int) -> None:
    chance = random.Random(seed)
    ours = checkpoint(tmp_path)
    for _ in range(BATCH):
        length = chance.randrange(len(whole))  # 0 included: an empty file is damage, not a fresh start
        ours.path.write_bytes(whole[:length])
        with pytest.raises(CheckpointDamaged) as refused:
            ours.load()
        assert refused.value.reason is Refusal.UNREADABLE, length


@pytest.mark.parametrize("seed", BATCHES, ids="seed={}".format)
def test_a_checkpoint_with_one_changed_byte_is_refused(tmp_path: Path, whole: bytes, seed: int) -> None:
    """Any byte, to any other value: nothing of it is believed, wherever it lies."""
    chance = random.Random(seed)
    ours = checkpoint(tmp_path)
    for _ in range(BATCH):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= chance.randrange(1, 256)
        ours.path.write_bytes(damaged)
        with pytest.raises(CheckpointDamaged) as refused:
            ours.load()
        assert refused.value.reason in (Refusal.UNREADABLE, Refusal.CHECKSUM), damaged


@pytest.mark.parametrize("seed", BATCHES, ids="seed={}".format)
def test_a_changed_byte_is_refused_or_changes_nothing_for_any_body(tmp_path: Path, seed: int) -> None:
    """A raw body may hold control characters, whose JSON escapes have two spellings (\\u001b, \\u001B).

    So the exact claim for `load` is: refused, or the very body that was saved. Never another one.
    """
    chance = random.Random(seed)
    place = tmp_path / "checkpoint.json"
    body = ("\x1b\x0b\x1f" * 20 + "text\n").encode()
    framed = frame(body)
    believed = 0
    for _ in range(BATCH):
        damaged = bytearray(framed)
        damaged[chance.randrange(len(framed))] ^= 1 << chance.randrange(8)
        place.write_bytes(damaged)
        try:
            assert load(place) == body
            believed += 1
        except CheckpointDamaged:
            pass
    assert believed < BATCH // 2


@pytest.mark.parametrize("seed", range(10), ids="seed={}".format)
def test_a_mixture_of_two_checkpoints_is_refused(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ours = checkpoint(tmp_path)
    ours.save(STATE)
    one = ours.path.read_bytes()
    ours.save(msgspec.structs.replace(STATE, queue=(), completed=STATE.completed[:22], note=""))
    two = ours.path.read_bytes()
    for _ in range(50):
        cut = chance.randrange(len('{"sha256":"x'), len(two) - 1)  # before that it is the whole of `one`
        mixture = two[:cut] + one[cut:]  # what overwriting in place leaves behind
        assert mixture not in (one, two)
        ours.path.write_bytes(mixture)
        with pytest.raises(CheckpointDamaged):
            ours.load()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b"3", b'"text"', b"{}", b'{"body":"{}"}', b'{"sha256":"","body":7}',
     b'{"sha256":"x","body":null}', b"\0" * 4096, b"\xff\xfe", b'{"sha256":"\xff","body":"{}"}'],
    ids=repr,
)  # fmt: skip
def test_a_file_without_a_whole_frame_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "checkpoint.json").write_bytes(content)
    with pytest.raises(CheckpointDamaged, match="unreadable") as refused:
        checkpoint(tmp_path).load()
    assert refused.value.reason is Refusal.UNREADABLE


@pytest.mark.parametrize("promised", ["", "0" * 64, None, 7, "upper"], ids=repr)
def test_a_wrong_checksum_is_refused(tmp_path: Path, promised: object) -> None:
    body = '{"schema_version":3,"state":{"step":1}}'
    if promised == "upper":
        promised = hashlib.sha256(body.encode()).hexdigest().upper()
    (tmp_path / "checkpoint.json").write_bytes(orjson.dumps({"sha256": promised, "body": body}))
    with pytest.raises(CheckpointDamaged, match="checksum mismatch"):
        checkpoint(tmp_path).load()


def test_a_state_that_was_wrong_before_it_was_framed_loads_without_a_murmur(tmp_path: Path) -> None:
    """The limit, stated and kept: the checksum covers what happened after framing and nothing before."""
    wrong = State(step=34, queue=(), completed=STATE.completed[:22], spent_usd=11.4)
    checkpoint(tmp_path).save(wrong)
    assert checkpoint(tmp_path).load() == wrong
    assert len(wrong.completed) == 22  # twelve tasks lost, and no checksum in the world can tell


@pytest.mark.parametrize(
    "body",
    ['{"state":{"step":1}}', '{"schema_version":3}', '{"schema_version":"3","state":{}}', "[]", "", "{",
     '{"schema_version":3,"state":{"step":1}'],
)  # fmt: skip
def test_a_framed_body_that_holds_no_state_is_refused(tmp_path: Path, body: str) -> None:
    save(Disk(), tmp_path / "checkpoint.json", body.encode())
    with pytest.raises(CheckpointDamaged) as refused:
        checkpoint(tmp_path).load()
    assert refused.value.reason is Refusal.UNREADABLE


@pytest.mark.parametrize("state", ['{"step":"one"}', "{}", '{"step":1,"unknown":2}', "null"])
def test_a_state_that_does_not_fit_its_version_is_refused(tmp_path: Path, state: str) -> None:
    save(Disk(), tmp_path / "checkpoint.json", f'{{"schema_version":3,"state":{state}}}'.encode())
    with pytest.raises(CheckpointDamaged, match="does not fit version 3"):
        checkpoint(tmp_path).load()


def test_an_older_version_is_read_by_its_loader_and_saved_as_the_new_one(tmp_path: Path) -> None:
    class Older(msgspec.Struct):
        step: int
        spent_cents: int

    def from_version_2(state: bytes) -> State:
        older = msgspec.json.decode(state, type=Older)
        return State(step=older.step, spent_usd=older.spent_cents / 100)

    Checkpoint(tmp_path / "checkpoint.json", Older, schema_version=2).save(Older(step=7, spent_cents=1140))
    ours = Checkpoint(tmp_path / "checkpoint.json", State, schema_version=3, loaders={2: from_version_2})
    assert ours.load() == State(step=7, spent_usd=11.4)
    ours.save(State(step=8))
    assert json.loads(json.loads(ours.path.read_bytes())["body"])["schema_version"] == 3
    assert ours.load() == State(step=8)


@pytest.mark.parametrize(("found", "ours"), [(4, 3), (1, 3)], ids=["newer", "too old"])
def test_a_version_in_no_table_is_refused_and_named(tmp_path: Path, found: int, ours: int) -> None:
    checkpoint(tmp_path, found).save(STATE)
    with pytest.raises(
        CheckpointDamaged, match=f"it has version {found}, this harness reads {ours}"
    ) as refused:
        checkpoint(tmp_path, ours).load()
    assert refused.value.reason is Refusal.SCHEMA


def test_a_refused_checkpoint_stays_refused_until_somebody_sets_it_aside(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").write_bytes(b"torn")
    for _ in range(3):  # a supervisor that restarts us must not turn damage into a fresh start
        with pytest.raises(CheckpointDamaged):
            checkpoint(tmp_path).load()
    ours = checkpoint(tmp_path)
    assert ours.set_aside() == tmp_path / "checkpoint.json.damaged-1"
    assert ours.load() is None
    assert ours.set_aside() is None
    assert (tmp_path / "checkpoint.json.damaged-1").read_bytes() == b"torn"


def test_saving_over_a_refused_checkpoint_keeps_it(tmp_path: Path) -> None:
    ours = checkpoint(tmp_path)
    for number in (1, 2):
        ours.path.write_bytes(b"torn %d" % number)
        with pytest.raises(CheckpointDamaged):
            ours.load()
        ours.save(STATE)
        assert (tmp_path / f"checkpoint.json.damaged-{number}").read_bytes() == b"torn %d" % number
        assert ours.load() == STATE
    ours.save(STATE)
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint.json",
        "checkpoint.json.damaged-1",
        "checkpoint.json.damaged-2",
    ]


def test_the_unfinished_files_of_killed_saves_go_at_the_start(tmp_path: Path) -> None:
    ours = checkpoint(tmp_path)
    ours.save(STATE)
    (tmp_path / "checkpoint.json.5eed5eed.tmp").write_bytes(b'{"sha256":')
    assert ours.sweep() == ["checkpoint.json.5eed5eed.tmp"]
    assert os.listdir(tmp_path) == ["checkpoint.json"]


def test_a_checkpoint_that_cannot_be_read_is_no_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").mkdir()
    with pytest.raises(RecordError, match=r"cannot read .*EISDIR"):
        checkpoint(tmp_path).load()


def test_the_message_names_the_file_the_reason_and_that_it_is_kept(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").write_bytes(b"torn")
    with pytest.raises(CheckpointDamaged) as refused:
        checkpoint(tmp_path).load()
    said = str(refused.value)
    assert str(tmp_path / "checkpoint.json") in said
    assert "refused (unreadable)" in said
    assert "it is kept" in said


def test_a_lone_surrogate_in_the_state_does_not_stop_the_save(tmp_path: Path) -> None:
    checkpoint(tmp_path).save(State(step=1, note="half a pair: \ud83d"))
    assert checkpoint(tmp_path).load() == State(step=1, note="half a pair: ?")
