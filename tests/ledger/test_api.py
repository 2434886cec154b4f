"""`/api/usage`: what the cloud would have charged, for admins, where there are ROI profiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.config.config import LedgerFiles
from tests.api.gateway import CHAT_KEY, MASTER, FakeGateway, ask
from tests.ledger import box
from tests.records.build import NOON, record


@pytest.fixture
def gateway(tmp_path: Path) -> FakeGateway:
    """A gateway that served a recipe, with the box's files."""
    box.build(tmp_path)
    gateway = FakeGateway(tmp_path)
    gateway.config = replace(gateway.config, ledger=files(tmp_path))
    gateway.usage.add(record(1, arrived=NOON, recipe="glm", prompt_tokens=2_000_000))
    return gateway


def files(folder: Path) -> LedgerFiles:
    return LedgerFiles(
        recipes=str(folder / "serving/recipes"),
        roi_profiles=str(folder / "serving/recipes/roi-profiles.yaml"),
        prices=str(folder / "run/prices.json"),
        tags=str(folder / "run/roi-tags.json"),
    )


async def test_the_cost_is_part_of_usage(gateway: FakeGateway) -> None:
    page = (await ask(gateway, "/api/usage", key=MASTER)).json()

    cost = page["cost"]
    assert cost["usd"] == cost["profiles"]["glm-5.3"]["usd"] == pytest.approx(0.700036)
    assert cost["profiles"]["glm-5.3"]["provider"] == "zai"
    assert cost["rows"][0]["key"] == "glm"
    assert cost["rows"][0]["override"] == "day 2026-09-30"
    assert "power, hardware" in cost["not_counted"][0]
    assert page["lifetime"]["recipes"]["glm"]["prompt_tokens"] == 2_000_000


async def test_a_price_that_changes_holds_from_the_next_request_on(
    gateway: FakeGateway, tmp_path: Path
) -> None:
    before = (await ask(gateway, "/api/usage", key=MASTER)).json()
    (tmp_path / "run/prices.json").unlink()

    after = (await ask(gateway, "/api/usage", key=MASTER)).json()

    assert before["cost"]["usd"] > 0
    assert after["cost"]["usd"] == 0
    assert after["cost"]["rows"][0]["source"] == "no price"


async def test_a_bad_file_is_told_and_nothing_is_charged(
    gateway: FakeGateway, tmp_path: Path
) -> None:
    (tmp_path / "run/prices.json").write_text('{"glm-5.3": 3}')

    page = (await ask(gateway, "/api/usage", key=MASTER)).json()

    assert [p["code"] for p in page["cost"]["problems"]] == ["wrong-type"]
    assert page["cost"].keys() == {"problems"}
    assert page["lifetime"]["total"]["requests"] == 1


async def test_without_roi_profiles_there_is_no_cost(gateway: FakeGateway, tmp_path: Path) -> None:
    (tmp_path / "serving/recipes/roi-profiles.yaml").unlink()

    page = (await ask(gateway, "/api/usage", key=MASTER)).json()

    assert "cost" not in page


async def test_a_client_without_admin_sees_none_of_it(gateway: FakeGateway) -> None:
    reply = await ask(gateway, "/api/usage", key=CHAT_KEY)

    assert reply.status == 403
