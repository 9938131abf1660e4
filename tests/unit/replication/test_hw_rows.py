"""silver/partition_hw and its counts are the kernel's rows, whatever they have in common and however they are cut."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.facts.columns import LONG_RUN, SHARED_ROWS, word_column
from pipelines.replication.facts.partition_hw import MINUTE_US, HwRows
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.sources import Sources
from pipelines.replication.term.layout import ADVANCE, AGREEMENTS, DISAGREE, HW_ROWS, KINDS, REPORT

ROW = HW_ROWS.at
START = 1_795_000_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stood(random, lanes=7):
    """A state with lanes of several topics and clusters, each with slots in an order of its own."""
    state = State(Sources(0))
    state.lanes.grow(lanes)
    state.replicas.grow(lanes)
    for lane in range(lanes):
        cluster, topic = state.clusters.number(f"cluster-{lane % 2}"), f"topic-{lane % 3}"
        number = state.topics.number(f"cluster-{lane % 2}", topic)
        state.lanes["partition"][lane] = state.partition_keys.number(np.array([(number << 32) | lane]))[0]
        state.lanes["topic"][lane], state.lanes["cluster"][lane] = number, cluster
        state.lanes["broker"][lane], state.lanes["slots"][lane] = lane + 1, 3
        state.replicas["id"][4 * lane : 4 * lane + 3] = random.permutation([lane + 1, 40, 50])
    for name in ("id-0", "id-1"):
        state.topic_ids.number(name)
    return state


def telemetry(random, state, count, alike):
    """Rows of the lanes in turn; the chance that a row differs from the one before is 1 - `alike` for each column."""
    rows = np.empty((count, len(HW_ROWS.defaults)), dtype=np.int64)
    rows[:, ROW.lane] = np.sort(random.integers(0, state.lanes.count, count))
    rows[:, ROW.ts] = START + np.cumsum(random.integers(0, MINUTE_US // 3, count))
    values = {
        "kind": range(len(KINDS)), "hw": [NULL, 0, 7], "reported": [NULL, 7], "leader_leo": [NULL, 9, 10],
        "isr": range(8), "holding": range(8), "frozen": [0, 1], "agreement": range(len(AGREEMENTS)),
        "leader_epoch": [NULL32, 0, 3], "topic_id": [-1, 0, 1], "level": [0, 2, 3],
    }  # fmt: skip
    for name, choice in values.items():
        last = np.maximum.accumulate(np.where(random.random(count) < alike, 0, np.arange(count)))
        rows[:, getattr(ROW, name)] = random.choice(list(choice), count)[last]
    return rows


def topic_id_of(state, number):
    return None if number < 0 else state.topic_ids.all[number][0]


def fact(state, row):
    lane, null = int(row[ROW.lane]), lambda value, none: None if value == none else int(value)
    ids, (cluster, topic) = (
        state.replicas["id"][4 * lane : 4 * lane + 3].tolist(),
        state.topics.all[state.lanes["topic"][lane]],
    )
    listed = lambda mask: sorted(r for slot, r in enumerate(ids) if mask >> slot & 1)  # noqa: E731
    return {
        "cluster": cluster, "topic": topic, "topic_id": topic_id_of(state, int(row[ROW.topic_id])), "partition": lane,
        "leader_id": lane + 1, "ts": EPOCH + timedelta(microseconds=int(row[ROW.ts])),
        "leader_epoch": null(row[ROW.leader_epoch], NULL32), "kind": KINDS[row[ROW.kind]],
        "hw": null(row[ROW.hw], NULL), "reported_hw": null(row[ROW.reported], NULL),
        "leader_leo": null(row[ROW.leader_leo], NULL), "isr": listed(int(row[ROW.isr])),
        "holding_replicas": listed(int(row[ROW.holding])), "frozen": bool(row[ROW.frozen]),
        "agreement": AGREEMENTS[row[ROW.agreement]], "level": int(row[ROW.level]),
    }  # fmt: skip


@pytest.mark.parametrize("alike", [0, 0.7, 0.99, 1])
@pytest.mark.parametrize("seed", range(3))
def test_columns_counts_and_parts_are_those_of_the_rows(seed, alike):
    random = np.random.default_rng(seed)
    state = stood(random)
    hw, blocks = HwRows(state), [telemetry(random, state, count, alike) for count in (300, 1, 0, 80)]
    for block in blocks:
        hw.add(block.copy())
    rows = np.concatenate(blocks)
    hw.table().validate(full=True)
    assert hw.table().to_pylist() == [fact(state, row) for row in rows]
    for k, column in enumerate((ROW.lane, ROW.ts, ROW.hw)):
        assert np.concatenate([part[k] for part in hw.parts()]).tolist() == rows[:, column].tolist()
    assert np.unique(hw.lanes()).tolist() == np.unique(rows[:, ROW.lane]).tolist()
    counted = {tuple(place): count for *place, count in hw.counts()}
    assert counted == Counter(counted_as(state, row) for row in rows)


def counted_as(state, row):
    """(cluster, broker, minute, word): a report that agrees counts as one, others and values as what they are."""
    lane, kind, agreement = int(row[ROW.lane]), row[ROW.kind], row[ROW.agreement]
    told_as = kind == ADVANCE or (kind == REPORT and agreement == DISAGREE)
    minute = int(row[ROW.ts]) // MINUTE_US * MINUTE_US
    return int(state.lanes["cluster"][lane]), lane + 1, minute, AGREEMENTS[agreement] if told_as else KINDS[kind]


def test_a_topic_id_that_samples_bring_behind_rows_of_logs_is_named():
    """It ended the micro-batch: names were those of before it."""
    random = np.random.default_rng(0)
    state = stood(random)
    hw, rows = HwRows(state), telemetry(random, state, 3, 1)
    hw.add(rows.copy())
    rows[:, ROW.topic_id] = state.topic_ids.number("new")
    hw.add(rows.copy())
    assert hw.table()["topic_id"].to_pylist()[3:] == ["new"] * 3


def test_nothing_was_reported():
    state = stood(np.random.default_rng(0))
    assert HwRows(state).table().num_rows == 0
    assert HwRows(state).lanes().tolist() == []
    assert HwRows(state).parts() == []


@pytest.mark.parametrize("size", [1, 3, LONG_RUN, SHARED_ROWS + 5])
@pytest.mark.parametrize("codes", [[], [1], [1, 1, 1], [0, 0, 2, 2, 0], [-1, 1, -1, -1, 2]])
def test_a_code_for_many_rows_is_that_code_row_by_row(codes, size):
    codes, vocabulary = np.array(codes, dtype=np.int64), ["", "b", "a word of more than sixteen letters"]
    each = np.full(len(codes), size, dtype=np.int64)
    column = word_column(codes, vocabulary, each)
    column.validate(full=True)
    assert column.equals(word_column(np.repeat(codes, each), vocabulary))
    assert column.to_pylist() == [None if code < 0 else vocabulary[code] for code in np.repeat(codes, each)]


def test_gaps_that_are_told_before_any_partition_are_kept():
    state = State(Sources(0))
    state.gap_times = {(0, 1): [7]}
    state.forget(np.array([], np.int64), 1000)
    assert state.gap_times == {(0, 1): [7]}
