from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.gateway import FakeGateway


@pytest.fixture
def gateway(tmp_path: Path) -> FakeGateway:
    """A gateway that is ready."""
    return FakeGateway(tmp_path)
