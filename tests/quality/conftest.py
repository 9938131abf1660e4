"""An empty lake for each test."""

import pytest


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")
