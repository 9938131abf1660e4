"""Tests use the compiled kernels that set-up left; those that start Spark have a run, with a session a process."""

import pytest
from hypothesis import HealthCheck, settings

from pipelines.setup import jars_dir, share_compiled_kernels

share_compiled_kernels()
# On a machine that is busy, or compiles a kernel, an example takes as long as it takes.
settings.register_profile("hwmark", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hwmark")


@pytest.fixture(scope="session")
def spark():
    """One Spark session, in a JVM as `hwmark run` starts it: what the thorough compiler costs no test earns back."""
    from pipelines.streaming.session import PASSES_BLOBS, session

    return session(master="local[2]", jars_dir=jars_dir(), conf=PASSES_BLOBS)
