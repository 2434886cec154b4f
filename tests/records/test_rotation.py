"""Size and age bound all files of a log together; nothing in between is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.records import segments
from gateway.records.logfile import LogFile
from tests.records.build import NOON, line, log_at, numbers

DAY = 86_400.0


def files(log: LogFile) -> list[Path]:
    return [*(path for _, path in segments.rotated(log.path)), log.path]


def total(log: LogFile) -> int:
    return sum(path.stat().st_size for path in files(log))


def opened(folder: Path, now: float = NOON, **limits: float) -> LogFile:
    log = LogFile(log_at(folder, **limits))
    log.open(now)
    return log


@settings(max_examples=60, deadline=None)
@given(
    max_bytes=st.integers(2_000, 40_000),
    batches=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    app=st.integers(0, 64),
    reopen=st.sets(st.integers(0, 11)),
)
def test_what_is_kept_is_the_youngest_each_once_whole_and_within_the_bound(
    max_bytes: int, batches: list[int], app: int, reopen: set[int]
) -> None:
    with TemporaryDirectory() as folder:
        log = opened(Path(folder), max_bytes=max_bytes)
        number = 0
        for place, count in enumerate(batches):
            lines = [line(n, app="x" * app) for n in range(number, number + count)]
            assert log.append(lines) == count
            number += count
            assert total(log) <= max_bytes
            if place in reopen:
                log.close()
                log = opened(Path(folder), max_bytes=max_bytes)
        log.close()

        kept = numbers(segments.iter_records(log.path))
        text = b"".join(path.read_bytes() for path in files(log))

    assert kept == list(range(number - len(kept), number))
    assert text.count(b"\n") == len(kept)
    # All of it, or at least three quarters of the bound, whole lines permitting.
    size = len(line(number, app="x" * app))
    assert len(kept) == number or len(kept) * size > max_bytes * 3 // 4 - 3 * size


def test_5000_running_numbers_come_out_once_each_over_many_files(tmp_path: Path) -> None:
    """LOG-04: every number once, each line whole, each file near its limit."""
    log = opened(tmp_path, max_bytes=20_000_000)
    log.close()
    log = opened(tmp_path, max_bytes=160_000 * 40)

    for n in range(0, 5000, 100):
        log.append([line(i) for i in range(n, n + 100)])
    log.close()

    assert numbers(segments.iter_records(log.path)) == list(range(5000))
    assert len(files(log)) > 3


def test_a_lowered_bound_holds_at_once_and_keeps_the_youngest(tmp_path: Path) -> None:
    log = opened(tmp_path, max_bytes=1_000_000)
    log.append([line(n) for n in range(200)])  # one file, far below an eighth
    log.close()

    log = opened(tmp_path, max_bytes=20_000)
    log.close()

    kept = numbers(segments.iter_records(log.path))
    assert total(log) <= 20_000
    assert kept == list(range(200 - len(kept), 200))
    assert kept


def test_age_goes_by_the_time_in_the_line_not_by_that_of_the_file(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([line(n, arrived=NOON - (9 - n) * DAY) for n in range(10)])
    log.close()

    log = opened(tmp_path, max_age_days=7.0)  # the file itself is a moment old
    log.close()

    assert numbers(segments.iter_records(log.path)) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_a_quiet_log_loses_what_grows_old_while_it_is_open(tmp_path: Path) -> None:
    log = opened(tmp_path, max_age_days=7.0)
    log.append([line(1), line(2, arrived=NOON + DAY)])

    log.expire(NOON + 7.5 * DAY)
    log.append([line(3, arrived=NOON + 7.5 * DAY)])

    assert numbers(segments.iter_records(log.path)) == [2, 3]
    log.expire(NOON + 30 * DAY)
    assert numbers(segments.iter_records(log.path)) == []
    log.close()


def test_files_that_others_rotated_are_left_alone(tmp_path: Path) -> None:
    log = opened(tmp_path, max_bytes=4000)
    foreign = [log.path.with_name(log.path.name + end) for end in (".1", ".gz", ".old", "-2026")]
    for path in foreign:
        path.write_bytes(b"x" * 10_000)

    log.append([line(n) for n in range(50)])
    log.close()

    assert all(path.stat().st_size == 10_000 for path in foreign)


def test_a_rotation_while_reading_neither_hides_nor_repeats(tmp_path: Path) -> None:
    log = opened(tmp_path, max_bytes=80_000)
    log.append([line(n) for n in range(60)])
    reading = segments.iter_records(log.path)
    first = next(reading)

    log.append([line(n) for n in range(60, 120)])
    seen = numbers([first, *reading])
    log.close()

    assert seen[:60] == list(range(60))
    assert seen == sorted(set(seen))


def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_no_torn_line(tmp_path: Path) -> None:
    # A limit on file size stands in for the full disk: a write stops short, the next fails.
    script = """
import resource, sys
from pathlib import Path
from tests.records.build import NOON, line, log_at, numbers
from gateway.records.logfile import LogFile
from gateway.records import segments

log = LogFile(log_at(Path(sys.argv[1])))
log.open(NOON)
size = len(line())
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (3 * size + size // 2, hard))
log.append([line(n) for n in range(3)])
try:
    log.append([line(3)])
except OSError:
    print("refused")
assert log.path.read_bytes() == line(0) + line(1) + line(2)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.append([line(3), line(4)])
log.close()
print(numbers(segments.iter_records(log.path)))
"""

    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stdout == "refused\n[0, 1, 2, 3, 4]\n", done.stderr


@pytest.mark.parametrize("left", ["activity.jsonl.000001.new"])
def test_what_a_kill_left_half_copied_is_removed(tmp_path: Path, left: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / left).write_bytes(line(1))

    opened(tmp_path).close()

    assert not (tmp_path / "run" / left).exists()
