"""`gateway usage backfill`: older days told apart by recipe, from the log, none counted twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.records.backfill import recount
from gateway.records.counters import Book, Ledger, Tokens, served_by
from gateway.records.record import Record
from gateway.records.rollups import Totals, key_of
from gateway.records.usage import Usage
from tests.cli.conftest import Gateway
from tests.commands import Golden
from tests.ledger import box


def served(folder: Path) -> dict[str, Any]:
    book: dict[str, Any] = json.loads((folder / "run/usage.json").read_text())
    return book


def test_an_older_file_is_read_on_and_its_days_are_a_row_of_their_own(
    gateway: Gateway, folder: Path, golden: Golden
) -> None:
    box.count(folder, box.month()[:5])
    box.older(folder)
    (folder / "run/activity.jsonl").unlink()
    box.count(folder, box.month()[5:])

    ran = gateway("usage", "--cost")

    assert ran.code == 0
    golden("cost-of-an-older-file.txt", ran.out)
    assert served(folder)["since"] == box.month()[0].at
    assert served(folder)["served_since"] == box.month()[5].at


def test_backfill_makes_of_an_older_file_what_a_new_one_would_be(
    gateway: Gateway, folder: Path, golden: Golden
) -> None:
    box.count(folder, box.month())
    new = served(folder)
    cost = gateway("usage", "--cost", "--json").out
    box.older(folder)

    ran = gateway("usage", "backfill")
    once = served(folder)
    again = gateway("usage", "backfill")

    assert (ran.code, ran.err) == (0, "")
    golden("backfill.txt", ran.out)
    golden("backfill-again.txt", again.out)
    assert {k: once[k] for k in ("since", "served_since")} == {
        k: new[k] for k in ("since", "served_since")
    }
    for day, ledger in new["days"].items():
        assert once["days"][day]["served"] == ledger["served"]
    assert once["lifetime"]["served"] == new["lifetime"]["served"]
    assert served(folder) == once | {"updated_at": served(folder)["updated_at"]}
    assert gateway("usage", "--cost", "--json").out == cost


def test_what_the_log_no_longer_holds_stays_as_it_is(gateway: Gateway, folder: Path) -> None:
    box.count(folder, box.month())
    box.older(folder)
    log = folder / "run/activity.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[3:]))

    ran = gateway("usage", "backfill")
    data = json.loads(gateway("usage", "--cost", "--json").out)

    assert "3 requests cannot be told apart" in ran.out
    lost = [row for row in data["rows"] if row["source"] == "unattributed"]
    assert [row["prompt_tokens"] for row in lost] == [4_000_000]
    assert sum(r["prompt_tokens"] for r in data["rows"]) == sum(
        r.prompt_tokens or 0 for r in box.month()
    )


def test_a_running_gateway_is_not_disturbed(gateway: Gateway, folder: Path) -> None:
    usage = Usage(folder / "run/activity.jsonl", save_s=3600.0)
    usage.start()
    try:
        ran = gateway("usage", "backfill")
    finally:
        usage.close()

    assert ran.code == 1
    assert "is being written by another process" in ran.err


def test_a_record_that_stands_twice_in_the_log_counts_once(folder: Path) -> None:
    book = counted([box.on(1, "2026-09-01", 10, 1, **box.SLOT, recipe="glm")])
    emptied(book)
    twice = [box.on(1, "2026-09-01", 10, 1, **box.SLOT, recipe="glm")] * 2

    recount(book, twice)

    assert book.days["2026-09-01"].attributed().prompt_tokens == 10


def test_a_log_that_holds_more_than_was_counted_changes_nothing(folder: Path) -> None:
    book = counted([box.on(1, "2026-09-01", 10, 1, **box.SLOT, recipe="glm")])
    emptied(book)
    others = [box.on(n, "2026-09-01", 10, 1, **box.SLOT, recipe="tiny") for n in (5, 6)]

    done = recount(book, others)

    assert [one.taken for one in done] == [False]
    assert book.days["2026-09-01"].attributed() == Tokens()


def counted(records: Sequence[Record]) -> Book:
    book = Book()
    for one in records:
        totals = Totals()
        totals.add(one)
        book.add(one.at[:10], key_of(one, one.tier), served_by(one), totals)
        book.remember(one, 0.0)
    return book


def emptied(book: Book) -> None:
    book.lifetime.served.clear()
    for ledger in book.days.values():
        ledger.served.clear()


recorded = st.builds(
    lambda number, day, prompt, completion, who: box.on(number, day, prompt, completion, **who),
    number=st.integers(0, 2**40),
    day=st.dates(date(2026, 9, 1), date(2026, 9, 4)).map(str),
    prompt=st.integers(0, 1000),
    completion=st.integers(0, 1000),
    who=st.sampled_from([box.SLOT | {"recipe": "glm"}, box.SLOT | {"recipe": "tiny"}, box.AUX]),
)


@given(
    st.lists(recorded, max_size=12, unique_by=lambda r: r.id),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_any_log_and_any_moment_of_the_change_give_the_same_numbers_twice(
    records: list[Record], unserved: int, reach: int
) -> None:
    book = counted(records)
    emptied(book)
    for one in records[unserved:]:  # what came after the change was told apart at once
        totals = Totals()
        totals.add(one)
        for ledger in (book.lifetime, book.days[one.at[:10]]):
            ledger.of(served_by(one)).add(totals)
    totals_before = {day: msgspec.to_builtins(one.total) for day, one in book.days.items()}

    recount(book, records[reach:])
    once = msgspec.json.encode(book)
    again = recount(book, records[reach:])

    assert msgspec.json.encode(book) == once
    assert not any(one.taken for one in again)
    assert {d: msgspec.to_builtins(one.total) for d, one in book.days.items()} == totals_before
    known = Ledger()
    for day, ledger in book.days.items():
        told = ledger.attributed()
        best = {"log": records[reach:], "live": records[unserved:]}
        assert told.requests == max(sum(r.at[:10] == day for r in part) for part in best.values())
        assert told.prompt_tokens <= ledger.total.prompt_tokens
        for who, tokens in ledger.parts():
            known.of(who).merge(tokens)
    assert sums(known) == sums(book.lifetime)


def sums(ledger: Ledger) -> dict[Any, Tokens]:
    return {who: tokens for who, tokens in ledger.parts() if tokens.requests}


@pytest.mark.parametrize("args", [("usage", "--json"), ("usage",)])
def test_usage_without_cost_shows_recipes_too(
    gateway: Gateway, folder: Path, args: tuple[str, ...]
) -> None:
    box.count(folder, box.month())

    ran = gateway(*args)

    assert "glm" in ran.out
    assert "slot-active" in ran.out
