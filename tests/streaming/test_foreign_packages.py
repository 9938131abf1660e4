"""Driver and workers use their own packages where PYTHONPATH begins with others of the same names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events
from pipelines.replication import replay
from pipelines.setup import jars_dir

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("way", ["local[2]", "spark-submit"])
def test_the_job_runs_beside_packages_of_the_same_names(tmp_path, way):
    for name in ("pipelines", "schemas", "generators"):
        (tmp_path / "theirs" / name).mkdir(parents=True)
        (tmp_path / "theirs" / name / "__init__.py").write_text("raise SystemExit('theirs was imported')\n")
    events, lake = read_logs([traces.path("unclean_election")], "prod"), str(tmp_path / "lake")
    append_events(lake, events, app_id="test", version=1)
    program = [sys.executable, "-m", "hwmark"]
    if way == "spark-submit":
        import pyspark

        jars = ",".join(map(str, Path(jars_dir()).glob("*.jar")))
        submit = Path(pyspark.__path__[0], "bin", "spark-submit")
        program = [submit, "--master", "local[2]", "--jars", jars, ROOT / "hwmark" / "__main__.py"]
    path = os.pathsep.join([str(tmp_path / "theirs"), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [*map(str, program), "run", "--once", "--drain", "--lake", lake]
    done = subprocess.run(command, cwd=tmp_path / "theirs", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = DeltaTable(f"{lake}/silver/hw_regressions").to_pyarrow_table()
    assert found.num_rows == replay(events).hw_regressions.num_rows > 0
