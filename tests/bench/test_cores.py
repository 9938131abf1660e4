"""CPU seconds as start, tasks and events, and the model that is made of them."""

import pytest

from pipelines.bench.measure.cores import Fit, Took, fitted, modelled, read_by_all
from pipelines.bench.workloads.load import rounds
from pipelines.lake.bronze import append_events


def test_runs_that_follow_the_formula_give_its_numbers():
    cost = {2: 1.0, 4: 1.5}
    runs = [Took(tasks, millions, 8 + 0.5 * tasks + cost[tasks] * millions) for tasks in cost for millions in (4, 16)]
    found = fitted(runs)
    assert (found.start, found.each_task) == (pytest.approx(8), pytest.approx(0.5))
    assert found.a_million == {2: pytest.approx(1.0), 4: pytest.approx(1.5)}


def test_cores_share_the_work_of_as_many_tasks():
    fit = Fit(8, 0.5, {2: 1.0, 4: 2.0})
    assert [modelled(fit, cores) for cores in (2, 3, 4, 8)] == [2, 3, 2, 4]


def test_bytes_read_by_all_tasks_are_those_of_the_files_where_each_reads_its_own(tmp_path):
    (events,) = rounds(4000, 20, step=20)
    for layout in ("order", "buckets"):
        append_events(str(tmp_path / layout), events, app_id="b", version=0, layout=layout)
    assert read_by_all(str(tmp_path / "order"), 4) == 4
    assert read_by_all(str(tmp_path / "order"), 8) == 1
    assert 1 < read_by_all(str(tmp_path / "buckets"), 4) < 1.2
    assert 1 < read_by_all(str(tmp_path / "buckets"), 2) < 1.2
