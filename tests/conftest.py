"""Tests use the compiled kernels that set-up left; those that start Spark share one session in a run of their own."""

from pipelines.setup import share_compiled_kernels

share_compiled_kernels()
