"""Logs that are kept, masked and followed; memory as the kernel tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.slot import keep, memory
from serving.slot.keep import Logs
from serving.slot.memory import Floor, Memory


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("API_KEY=abc123 z", "API_KEY=[hidden] z"),
        ('"api_key": "abc"', '"api_key": "[hidden]"'),
        ("Authorization: Bearer foo.bar", "Authorization: Bearer [hidden]"),
        ("--api-key hunter2 --port 3", "--api-key [hidden] --port 3"),
        ("['--api-key', 'hunter2']", "['--api-key', '[hidden]']"),
        ("HF_TOKEN='hf_xx'", "HF_TOKEN='[hidden]'"),
        ("password: 1234", "password: [hidden]"),
        ("key sk-abcdef", "key sk-[hidden]"),
        ("max_tokens=512, n_ctx=1", "max_tokens=512, n_ctx=1"),
        ("loading token embeddings", "loading token embeddings"),
        ("tokenizer=foo", "tokenizer=foo"),
    ],
)
def test_values_of_key_like_words_are_hidden(line: str, shown: str) -> None:
    assert keep.mask(line) == shown


def test_the_last_logs_are_kept_and_each_start_has_its_own(tmp_path: Path) -> None:
    logs = Logs(folder=tmp_path, kept=2)

    made = [logs.begin("a"), logs.begin("a"), logs.begin("b")]

    assert [path.exists() for path in made] == [False, True, True]
    assert logs.newest() == made[2]
    assert logs.newest("a") == made[1]
    assert made[1].stat().st_mode & 0o077 == 0


def test_a_log_that_grew_is_moved_beside_and_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("a") as file:
        file.write("x" * 100)
        file.flush()
        rotated = keep.rotate(log, most=50)
        file.write("more\n")

    assert rotated
    assert log.read_text() == "more\n"
    assert log.with_suffix(".log.old").read_text() == "x" * 100


def test_of_a_progress_bar_the_last_state_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("10%\r50%\r\x1b[32mdone\x1b[0m\n\nnext\r\n")

    assert keep.tail(log, 5) == ["done", "next"]
    assert keep.tail(tmp_path / "none.log", 5) == []


def test_memory_is_read_as_the_kernel_says_it(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 4194304 kB\nMemAvailable: 1048576 kB\nX: 1\n")
    (tmp_path / "pressure/memory").write_text(
        "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.25 avg60=0 total=0\n"
    )

    assert memory.look(tmp_path) == Memory(
        available_gib=1.0, total_gib=4.0, some_avg10=1.5, full_avg10=0.25
    )
    assert memory.look(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("available_gib", "full", "verdict"),
    [(8, 0.0, "well"), (1, 0.0, "low"), (8, 30.0, "low"), (8, None, "well")],
)
def test_memory_is_low_by_what_is_free_or_by_how_long_all_wait(
    available_gib: float, full: float | None, verdict: str
) -> None:
    seen = Memory(available_gib=available_gib, total_gib=9, some_avg10=0, full_avg10=full)

    assert memory.judge(seen, Floor(low_gib=2, pressure_full=20)) == verdict
