"""F1 to F16 and more, in every cell of the matrix where they can exist: all of them Met."""

from __future__ import annotations

import pytest

from tests.failover.bench import play
from tests.failover.bridging import sender
from tests.failover.judging import Grade
from tests.failover.scenarios import ADDED, SCENARIOS, Scenario

# The last event of a Responses stream repeats the whole answer with its id: another engine's
# cannot be joined to what was sent. The caller gets the error event.
NO_RESCUE: dict[str, Grade] = dict.fromkeys(
    (
        f"{scenario}-responses-streamed{rest}"
        for scenario in ("f8", "f9", "f14", "e2")
        for rest in ("", "-alias", "-bridged")
    ),
    "Tolerable",
)


@pytest.mark.parametrize("scenario", SCENARIOS + ADDED, ids=[s.name for s in SCENARIOS + ADDED])
async def test_the_scenario_is_met_in_every_cell(scenario: Scenario, bridge_path: str) -> None:
    results = await play(scenario, sender(bridge_path))

    wanted = {r.run.group: NO_RESCUE.get(r.run.group, "Met") for r in results}
    wrong = {r.run.group: str(r) for r in results if r.grade != wanted[r.run.group]}
    assert wrong == {}
