"""Medians, ratios and verdicts of the comparison."""

from __future__ import annotations

from bench.figures import TARGETS, Figures, chunks_s, p50_ms, rps
from bench.load import Seen
from bench.report import missed, remarks, table, verdicts
from bench.rounds import CELLS, Cell, Measured, Turn


def seen(*, rps: float, p50: float, bad: int = 0) -> Seen:
    """A run with these figures and nothing else of interest."""
    return Seen(
        ok=1,
        bad=bad,
        example="",
        rps=rps,
        chunks_s=rps * 10,
        p50_ms=p50,
        p99_ms=p50,
        ttft_p50_ms=None,
        ttft_p99_ms=None,
        no_usage=0,
        reconnects=0,
        sent=10,
        whole=10,
        in_flight=0,
        chunks=100,
    )


def turn(
    name: str,
    number: int,
    *,
    rps: float,
    p50: float = 1.0,
    records: int | None = None,
    bad: int = 0,
) -> Turn:
    """One contender's turn with one rate in every cell."""

    def measured(cell: Cell) -> Measured:
        return Measured(
            cell=cell,
            seen=seen(rps=rps, p50=p50, bad=bad),
            cpu_us_per_request=100.0,
            cpu_us_per_chunk=10.0,
        )

    return Turn(
        contender=name,
        round=number,
        start_s=1.0,
        idle_mb=50.0,
        after_mb=60.0,
        cells=tuple(map(measured, CELLS)),
        requests=50,
        records=records,
        records_ok=records,
        stop_s=0.1,
    )


def test_a_ratio_compares_neighbours_in_time() -> None:
    # The machine halves its speed in the second round: the ratio does not move.
    figures = Figures(
        [
            turn("gateway", 0, rps=1000),
            turn("litellm", 0, rps=10),
            turn("gateway", 1, rps=500),
            turn("litellm", 1, rps=5),
        ]
    )

    assert figures.ratio("gateway", "litellm", rps(64)) == 100
    assert figures.ratio("gateway", "litellm", chunks_s(64)) == 100
    assert figures.middle("gateway", rps(64)) == 750


def test_added_latency_is_what_the_gateway_puts_on_top_of_direct() -> None:
    figures = Figures([turn("direct", 0, rps=1, p50=0.25), turn("gateway", 0, rps=1, p50=0.75)])

    assert figures.added("gateway", "direct", p50_ms) == 0.5


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    figures = Figures([turn("direct", 0, rps=1), turn("gateway", 0, rps=1, records=50)])

    assert missed(figures) == []
    assert "not measured" in verdicts(figures)


def test_a_lost_record_is_a_missed_target() -> None:
    figures = Figures([turn("gateway", 0, rps=1, records=49)])

    assert missed(figures) == ["records per request, each round"]


def test_two_records_for_one_request_are_as_wrong_as_none() -> None:
    figures = Figures([turn("gateway", 0, rps=1, records=51)])

    assert missed(figures) == ["records per request, each round"]


def test_each_target_has_a_line() -> None:
    figures = Figures([turn(name, 0, rps=1) for name in ("direct", "gateway", "litellm")])

    printed = verdicts(figures)

    assert all(target.name in printed for target in TARGETS)
    assert "MISSED" in printed


def test_the_table_has_a_row_for_each_contender() -> None:
    figures = Figures([turn("direct", 0, rps=2000), turn("nginx", 0, rps=1000, p50=1.5)])

    rows = table(figures).splitlines()

    assert [row.split()[0] for row in rows[1:]] == ["direct", "nginx"]
    assert "0.50" in rows[2]


def test_noise_and_wrong_answers_are_said() -> None:
    figures = Figures([turn("nginx", 0, rps=1000, bad=3), turn("nginx", 1, rps=2000)])

    said = " ".join(remarks(figures))

    assert "2.0 x between rounds" in said
    assert "wrong answers" in said
