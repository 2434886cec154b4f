"""What a lane takes of the processor: its threads, its cores, its turn. As the kernel counts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from serving.embedded.node import Node, Options
from serving.embeddings.share import cores
from tests.embeddings.processes import Running, lane, lane_running
from tests.ground.repository import ROOT
from tests.served import free_port

TEXTS = ["The signaller pulls the levers in the order that is allowed. " * 12] * 32
POLICIES = {"low": os.SCHED_BATCH, "idle": os.SCHED_IDLE}
A_CORE = min(os.sched_getaffinity(0))


def tasks(pid: int) -> list[int]:
    return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]


def ticks(pid: int) -> dict[int, int]:
    """CPU time of each thread so far."""
    found: dict[int, int] = {}
    for task in tasks(pid):
        fields = Path(f"/proc/{pid}/task/{task}/stat").read_text().rsplit(")", 1)[1].split()
        found[task] = int(fields[11]) + int(fields[12])
    return found


def computing(it: Running) -> int:
    """How many threads do the work of a few batches: each at least a twentieth of it."""
    before = ticks(it.process.pid)
    for _ in range(2):
        assert it.ask(TEXTS, encoding_format="base64").status_code == 200
    spent = {task: now - before.get(task, 0) for task, now in ticks(it.process.pid).items()}
    return sum(each >= sum(spent.values()) / 20 for each in spent.values())


def test_no_more_threads_compute_than_were_given(tmp_path: Path) -> None:
    """Four on two cores as well: threads are counted here, not speed.

    All four are there, and the machine's scheduler decides which of them gets how much to do.
    """
    compute, there = {}, {}
    for threads in (1, 2, 4):
        with lane_running(tmp_path, "minilm", "--threads", str(threads)) as it:
            compute[threads] = computing(it)
            there[threads] = len(tasks(it.process.pid))
            assert it.client.get("/health").json()["threads"] == threads

    assert compute[1] == 1
    assert 1 < compute[4] <= 4
    assert there[4] == there[2] + 2


@pytest.mark.parametrize("priority", ["low", "idle"])
def test_every_thread_of_a_lane_has_its_priority_and_its_cores(
    priority: str, tmp_path: Path
) -> None:
    asked = ("--priority", priority, "--cores", str(A_CORE))
    with lane_running(tmp_path, "minilm", "--threads", "2", *asked) as it:
        it.vectors(TEXTS[:2])
        threads = tasks(it.process.pid)
        policies = {os.sched_getscheduler(task) for task in threads}
        places = {frozenset(os.sched_getaffinity(task)) for task in threads}
        health = it.client.get("/health").json()

    assert policies == {POLICIES[priority]}
    assert places == {frozenset({A_CORE})}
    assert (health["priority"], health["cores"]) == (priority, 1)


@pytest.mark.parametrize("leads", [True, False])
def test_a_session_is_lowered_only_by_the_process_that_leads_it(leads: bool) -> None:
    """Where the kernel shares the processor between sessions first."""
    code = "from serving.embeddings.share import *; take(Share(priority='idle')); print(seen())"
    code += "; p = __import__('pathlib').Path('/proc/self/autogroup')"
    code += "; print(p.read_text() if p.exists() else None)"

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        start_new_session=leads,
    )

    share, group = done.stdout.split("\n", 1)
    assert "priority='idle'" in share
    assert "None" in group or ("nice 19" in group) == leads


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", {0}), ("2-4", {2, 3, 4}), ("0,2-3,9", {0, 2, 3, 9}), ("3-3", {3})]
)
def test_cores_are_numbers_and_ranges(text: str, numbers: set[int]) -> None:
    assert cores(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-2", "1,,2", "1.5"])
def test_anything_else_is_no_list_of_cores(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        cores(text)


def test_cores_that_are_not_here_are_one_line_and_exit_1() -> None:
    command = [*lane("minilm"), "--port", str(free_port()), "--cores", f"{A_CORE},4000"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith(f"serving: cores {A_CORE},4000 are not all to be had")
    assert done.stderr.count("\n") == 1


def test_the_embedded_node_gives_documents_what_questions_leave(tmp_path: Path) -> None:
    node = Node(Options(model=tmp_path, port=9000, run_dir=tmp_path), said=lambda _: None)

    asked = {each.settings.name: each.settings.command for each in node.lanes}
    given = {name: words[words.index("--priority") + 1] for name, words in asked.items()}
    assert given == {"emb-query": "normal", "emb-ingest": "idle"}
