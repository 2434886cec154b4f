"""F1 to F16 and more, in every cell of the matrix where they can exist: all of them Met."""

from __future__ import annotations

import pytest

from tests.bridging import sender
from tests.failover.bench import play
from tests.failover.scenarios import ADDED, SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS + ADDED, ids=[s.name for s in SCENARIOS + ADDED])
async def test_the_scenario_is_met_in_every_cell(scenario: Scenario, bridge_path: str) -> None:
    results = await play(scenario, sender(bridge_path))

    assert {r.run.group: str(r) for r in results if r.grade != "Met"} == {}
