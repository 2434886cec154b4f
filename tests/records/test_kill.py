"""kill -9 in the middle of load: at most the last second is lost, and nothing is torn."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.records.activity import ActivityLog, iter_records
from gateway.records.usage import Usage
from tests.records.build import log_at, numbers, record

WRITER = """
import itertools, sys, time
from pathlib import Path
from gateway.records.activity import ActivityLog
from gateway.records.usage import Usage
from tests.records.build import log_at, record

log = ActivityLog(log_at(Path(sys.argv[1]), max_bytes=50_000_000))
log.start()
usage = Usage(log.path, flush=log.flush, save_s=0.05)
usage.start()
first = int(sys.argv[2])
for n in itertools.count(first):
    r = record(n, arrived=time.time() - 0.9, completion_tokens=1)
    log.write(r)
    usage.add(r)
    if n % 50 == 0:
        print(n, time.monotonic(), flush=True)
        time.sleep(0.002)
"""


def killed_after(seconds: float, folder: Path, first: int) -> int:
    """Run a writer, kill it, and return the last number it had given a second before."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(first)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    given: list[tuple[int, float]] = []
    end = None
    for row in child.stdout:
        number, moment = row.split()
        given.append((int(number), float(moment)))
        end = end or time.monotonic() + seconds
        if time.monotonic() >= end:
            break
    killed = time.monotonic()
    child.kill()
    child.communicate()
    return max(n for n, moment in given if moment <= killed - 1.0)


@pytest.mark.parametrize("seconds", [1.2, 1.37])
def test_a_kill_loses_at_most_the_last_second_and_no_reader_trips(
    tmp_path: Path, seconds: float
) -> None:
    due = killed_after(seconds, tmp_path, first=0)

    found = numbers(iter_records(log_at(tmp_path).path))
    assert found == list(range(len(found)))
    assert len(found) > due

    log = ActivityLog(log_at(tmp_path, max_bytes=50_000_000))
    log.start()
    log.write(record(len(found)))
    log.close()
    text = Path(log.path).read_bytes()
    assert numbers(iter_records(log.path)) == list(range(len(found) + 1))
    assert text.count(b"\n") == len(text.splitlines())


def test_after_kills_usage_counts_each_record_of_the_log_exactly_once(tmp_path: Path) -> None:
    first = 0
    for seconds in (1.1, 1.2):
        killed_after(seconds, tmp_path, first)
        first = len(numbers(iter_records(log_at(tmp_path).path)))
    in_log = numbers(iter_records(log_at(tmp_path).path))

    usage = Usage(log_at(tmp_path).path)
    usage.start()
    total = usage.lifetime()["lifetime"]["total"]
    usage.close()

    assert total["requests"] == len(in_log) == len(set(in_log))
    assert total["completion_tokens"] == len(in_log)
