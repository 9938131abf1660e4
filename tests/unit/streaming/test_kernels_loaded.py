"""Kernels are loaded before workers are forked, and never compiled for that."""

import numba.core.dispatcher
from numba import config

from pipelines.replication.batch import run_terms
from pipelines.streaming.workers import kernels


def test_what_is_compiled_is_loaded():
    kernels.load()
    assert run_terms.run_kernel.signatures


def test_nothing_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "nothing yet"))
    monkeypatch.setattr(numba.core.dispatcher.Dispatcher, "compile", None)
    kernels.load()
