"""Kernels are loaded before workers are forked, and never compiled for that."""

import os
import subprocess
from types import SimpleNamespace

import numba.core.dispatcher
import pytest

from pipelines.replication import Rules
from pipelines.replication.batch import hw_timeline, run_terms
from pipelines.replication.compiled import decorators
from pipelines.replication.facts import partition_hw
from pipelines.replication.samples.kernel import read_rows, settle_all
from pipelines.streaming import job
from pipelines.streaming.workers import kernels


def test_what_is_compiled_is_loaded():
    kernels.compile_first()
    kernels.load()
    for kernel in (run_terms.run_kernel, hw_timeline._mark_moved, partition_hw._fill_block, read_rows, settle_all):
        assert kernel.signatures


def test_nothing_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "nothing yet"))
    monkeypatch.setattr(numba.core.dispatcher.Dispatcher, "compile", None)
    kernels.load()


def test_what_reading_logs_compiled_is_not_all(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.core.dispatcher.Dispatcher, "compile", None)
    (tmp_path / "scan").mkdir()
    assert not kernels.are_compiled()
    kernels.load()
    kernels._marks()[0].touch()  # which alone says what is complete
    assert kernels.are_compiled()
    monkeypatch.setattr(numba.config, "CPU_NAME", "generic")
    assert not kernels.are_compiled()  # for another CPU


def test_where_the_folder_that_is_set_cannot_be_written_to_the_users_is_taken_beside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/kernels")
    assert decorators.kernel_caches() == [tmp_path / "hwmark/numba"]
    (tmp_path / "image").mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "image"))
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path / "image")
    assert decorators.kernel_caches() == [tmp_path / "hwmark/numba", tmp_path / "image"]
    assert not kernels.are_compiled()
    kernels._marks()[1].touch()
    assert kernels.are_compiled()


def test_the_first_run_compiles_before_spark_starts_and_says_so(tmp_path, monkeypatch, caplog):
    """Tasks compiled it instead, side by side: ten minutes of "0 of 2 tasks"."""
    done = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "compiling", lambda: subprocess.Popen(["touch", kernels._marks()[0]]))
    monkeypatch.setattr(job, "_prepared", lambda *_: SimpleNamespace(buckets=1, layout=(2, 2)))
    monkeypatch.setattr(job, "_session", lambda *_: done.append(kernels.are_compiled()) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        job.run(str(tmp_path / "lake"), Rules())
    assert done == [True]
    assert "compiles its kernels" in caplog.text
    kernels.compile_first()
    assert caplog.text.count("compiles its kernels") == 1
