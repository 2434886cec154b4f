"""The activity log as the gateway uses it: records handed over, files on disk."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.config.config import Activity
from gateway.records.activity import ActivityLog, RecordsError, iter_records
from gateway.records.lock import FileLock
from tests.records.build import NOON, line, log_at, numbers, record


@contextmanager
def started(activity: Activity, *, max_waiting: int = 1000) -> Iterator[ActivityLog]:
    log = ActivityLog(activity, max_waiting=max_waiting, flush_s=0.02)
    log.start()
    try:
        yield log
    finally:
        log.close()


def until(true: Callable[[], bool], limit_s: float = 10.0) -> bool:
    """Wait for another thread, as long as it takes up to a limit."""
    end = time.monotonic() + limit_s
    while not true() and time.monotonic() < end:
        time.sleep(0.01)  # between two looks at another thread
    return true()


def test_each_record_is_one_line_and_reads_back_whole(tmp_path: Path) -> None:
    activity = log_at(tmp_path)
    given = [record(n, app='quote " and \\ and ü', task="title") for n in range(100)]

    with started(activity) as log:
        for r in given:
            log.write(r)

    assert list(iter_records(activity.path)) == given
    assert Path(activity.path).read_bytes().count(b"\n") == 100
    assert log.lost == 0


def test_a_record_is_on_disk_a_moment_after_it_was_given(tmp_path: Path) -> None:
    activity = log_at(tmp_path)

    with started(activity) as log:
        log.write(record(7))

        assert until(lambda: numbers(iter_records(activity.path)) == [7], limit_s=1.0)


def test_what_finds_no_room_is_counted_and_blocks_nobody(tmp_path: Path) -> None:
    log = ActivityLog(log_at(tmp_path), max_waiting=10, flush_s=60.0)
    log.start()

    for n in range(25):
        log.write(record(n))

    assert log.lost == 15
    log.close()
    assert numbers(iter_records(log.path)) == list(range(10))


def test_a_record_given_after_close_is_counted_lost(tmp_path: Path) -> None:
    with started(log_at(tmp_path)) as log:
        pass

    log.write(record())

    assert log.lost == 1


def test_a_record_that_cannot_be_encoded_is_counted_and_the_next_is_written(
    tmp_path: Path,
) -> None:
    with started(log_at(tmp_path)) as log:
        log.write(record(1, app="\ud800"))
        log.write(record(2))

    assert numbers(iter_records(log.path)) == [2]
    assert log.lost == 1


async def test_the_event_loop_goes_on_while_the_log_is_closed(tmp_path: Path) -> None:
    log = ActivityLog(log_at(tmp_path, max_bytes=50_000_000), max_waiting=50_000, flush_s=60.0)
    log.start()
    for n in range(20_000):
        log.write(record(n))
    turns = 0

    closing = asyncio.create_task(log.aclose())
    while not closing.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 2
    assert numbers(iter_records(log.path)) == list(range(20_000))


def test_a_file_that_was_renamed_by_somebody_is_begun_anew(tmp_path: Path) -> None:
    activity = log_at(tmp_path)
    with started(activity) as log:
        log.write(record(1))
        log.flush()

        Path(activity.path).rename(activity.path + ".1")
        log.write(record(2))

    assert numbers(iter_records(activity.path)) == [2]
    assert Path(activity.path + ".1").read_bytes() == line(1)


def test_a_file_or_folder_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    activity = log_at(tmp_path)
    with started(activity) as log:
        log.write(record(1))
        log.flush()

        for file in Path(activity.path).parent.iterdir():
            file.unlink()
        Path(activity.path).parent.rmdir()
        log.write(record(2))

    assert numbers(iter_records(activity.path)) == [2]
    assert log.lost == 0


def test_a_file_that_was_emptied_in_place_goes_on(tmp_path: Path) -> None:
    activity = log_at(tmp_path)
    with started(activity) as log:
        log.write(record(1))
        log.flush()

        os.truncate(activity.path, 0)
        log.write(record(2))

    assert Path(activity.path).read_bytes() == line(2)


def test_while_the_file_cannot_be_written_records_wait_and_then_all_arrive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    activity = log_at(tmp_path)
    path = Path(activity.path)
    with started(activity, max_waiting=10) as log:
        path.unlink()
        path.mkdir()  # nobody, root included, can write lines to a folder
        for n in range(25):
            log.write(record(n))
        assert not log.flush(0.2)
        kept = 25 - log.lost

        path.rmdir()

        assert log.flush(10.0)
    assert numbers(iter_records(path)) == list(range(kept))
    assert capsys.readouterr().out.count("activity_log_unwritable") == 1


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    """LOG-04: several processes do not rotate one file: the second does not start."""
    activity = log_at(tmp_path)
    link = tmp_path / "link.jsonl"
    with started(activity):
        link.symlink_to(activity.path)

        for path in (activity.path, str(link)):
            with pytest.raises(RecordsError, match=rf"pid {os.getpid()}.*activity\.path"):
                ActivityLog(Activity(path=path)).start()

    with started(activity):
        pass  # the first one has let go


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    held = tmp_path / "activity.jsonl"
    script = (  # it sleeps until it is killed
        "import sys, time; from pathlib import Path; from gateway.records.lock import FileLock\n"
        "FileLock(Path(sys.argv[1])).take(); print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(held)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    lock = FileLock(held)
    with pytest.raises(RecordsError, match=str(child.pid)):
        lock.take()

    child.kill()
    child.communicate()

    lock.take()
    lock.close()


@pytest.mark.parametrize("torn", [b'{"id":"00', b'{"id":"', b"\0\0\0\0", line(9)[:-20]])
def test_a_torn_last_line_is_cut_off_at_open(tmp_path: Path, torn: bytes) -> None:
    activity = log_at(tmp_path)
    Path(activity.path).parent.mkdir()
    Path(activity.path).write_bytes(line(1) + torn)

    with started(activity) as log:
        log.write(record(2))

    assert Path(activity.path).read_bytes() == line(1) + line(2)


@pytest.mark.parametrize("torn", [b'{"id":"00', b"\0" * 5000])
def test_a_file_that_is_nothing_but_torn_is_begun_anew(tmp_path: Path, torn: bytes) -> None:
    activity = log_at(tmp_path)
    Path(activity.path).parent.mkdir()
    Path(activity.path).write_bytes(torn)

    with started(activity) as log:
        log.write(record(2))

    assert Path(activity.path).read_bytes() == line(2)


def test_a_last_record_that_lacks_only_its_line_end_is_kept(tmp_path: Path) -> None:
    activity = log_at(tmp_path)
    Path(activity.path).parent.mkdir()
    Path(activity.path).write_bytes(line(1) + line(2)[:-1])

    with started(activity) as log:
        log.write(record(3))

    assert numbers(iter_records(activity.path)) == [1, 2, 3]


def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_bytes(b"model_list:\n  - model_name: a\n  - torn")

    with pytest.raises(RecordsError, match="something else than activity records"):
        ActivityLog(Activity(path=str(config))).start()

    assert config.read_bytes() == b"model_list:\n  - model_name: a\n  - torn"


@pytest.mark.parametrize("place", ["/dev/null", "/proc/nowhere/activity.jsonl"])
def test_a_place_that_cannot_hold_a_log_is_refused_with_its_name(place: str) -> None:
    with pytest.raises((RecordsError), match=place):
        ActivityLog(Activity(path=place)).start()


def test_readers_skip_lines_that_are_no_records(tmp_path: Path) -> None:
    path = tmp_path / "activity.jsonl"
    broken = [b"\n", b"{}\n", b"[1]\n", b"\xff\xfe\n", b"\0\0\n", line(8)[:50] + b"\n"]
    path.write_bytes(line(1) + b"".join(broken) + line(2) + line(9)[:-9])

    assert numbers(iter_records(path)) == [1, 2]


def test_readers_may_ask_for_what_arrived_since(tmp_path: Path) -> None:
    path = tmp_path / "activity.jsonl"
    path.write_bytes(b"".join(line(n, arrived=NOON + n) for n in range(10)))

    found = iter_records(path, datetime.fromtimestamp(NOON + 7, UTC))

    assert numbers(found) == [7, 8, 9]


def test_there_is_nothing_to_read_where_there_is_no_log(tmp_path: Path) -> None:
    assert list(iter_records(tmp_path / "nowhere" / "activity.jsonl")) == []
