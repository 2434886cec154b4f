"""A minute of the soak; `make soak` runs ten."""

from __future__ import annotations

import pytest

from tests.soak.run import soak


@pytest.mark.timeout(180)
async def test_a_minute_of_load_faults_cancels_and_reloads_leaves_nothing_behind() -> None:
    seen = await soak(60.0)

    assert seen.wrong == []
    assert seen.left == []
    assert seen.requests > 1000
    assert seen.growth_mb < 20
