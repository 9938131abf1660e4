"""Kernels are loaded before workers are forked, and never compiled for that."""

import numba.core.dispatcher
from numba import config

from pipelines.replication.batch import hw_timeline, run_terms
from pipelines.replication.facts import partition_hw
from pipelines.replication.samples import steady_kernel
from pipelines.streaming.workers import kernels


def test_what_is_compiled_is_loaded():
    kernels.load()
    of_samples = steady_kernel.read_samples, steady_kernel.settle_all
    for kernel in (run_terms.run_kernel, hw_timeline._mark_moved, partition_hw._fill_block, *of_samples):
        assert kernel.signatures


def test_nothing_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "nothing yet"))
    monkeypatch.setattr(numba.core.dispatcher.Dispatcher, "compile", None)
    kernels.load()
