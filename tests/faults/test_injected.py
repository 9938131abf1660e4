"""A sample by seed of the writes of ingest, run, check and maintain that fail; `make test-faults` tries them all.

What is asked of each: the tables are in the end those of an undisturbed lake, and a command that fails says why.
"""

import pytest

from tests.faults.campaign import closing_table, outcomes
from tests.faults.points import injections, ordered
from tests.faults.preload import build, compiler
from tests.faults.stages import INJECTED
from tests.faults.trial import SOUND, prepare

SEED = 20261122
SAMPLE = {"first ingest": 3, "second ingest": 3, "second run": 2, "maintain": 3}
"""Faults per stage: a run takes two starts of Spark, and a check is left to `make test-faults`."""
AT_ONCE = 2


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.skipif(compiler() is None, reason="no C compiler: faults cannot be injected")
def test_a_write_that_fails_loses_doubles_and_hides_nothing(tmp_path):
    prepared = prepare(build(tmp_path), tmp_path, lambda stage: stage.name in SAMPLE)
    assert {name: files for name, files in prepared.unseen.items() if files} == {}, "written past the library"
    every = ordered(
        injections({stage.name: prepared.calls[stage.name] for stage in INJECTED if stage.name in SAMPLE}), SEED
    )
    chosen = [one for name, most in SAMPLE.items() for one in [o for o in every if o.stage == name][:most]]
    found = list(outcomes(chosen, prepared, tmp_path, AT_ONCE, float("inf")))
    print(closing_table(found, len(every)))
    assert len(found) == sum(SAMPLE.values())
    assert [f"{o.verdict}: {o.injection}: {o.why}" for o in found if o.verdict not in SOUND] == []
