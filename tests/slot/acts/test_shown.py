"""What the commands print, from the control plane's answers."""

from __future__ import annotations

from typing import Any

from serving.cli_tables import plain
from serving.slot import shown

STATUS: dict[str, Any] = {
    "slot": "gpu0",
    "phase": "draining",
    "recipe": "one",
    "served_name": "one-model",
    "port": 8081,
    "progress": None,
    "target": "two",
    "reason": "swap to two [asked by ops]",
    "leases": 3,
    "waiting": [{"recipe": "two", "count": 2, "longest_s": 11.6}],
    "memory": {"available_gib": 3.14, "total_gib": 127.5, "verdict": "low"},
    "failures": {"three": {"count": 2, "reason": "[Errno 2] no file", "retry_in_s": 19.6}},
}


def test_the_status_says_who_is_loaded_who_waits_and_what_failed() -> None:
    assert shown.status(STATUS) == [
        "slot     gpu0",
        "phase    draining, then two (swap to two [asked by ops])",
        "recipe   one (one-model, :8081)",
        "running  3 requests",
        "waiting  2 for two, the longest 12 s",
        "memory   3.1 of 127.5 GiB available, LOW",
        "three failed 2 times, again in 20 s: [Errno 2] no file",
    ]


def test_the_list_cuts_no_name() -> None:
    long = "nvidia-qwen3.8-flash-next-fp4-tensorfold"
    row = {
        "id": long,
        "engine": "tensorfold",
        "tier": "heavy",
        "lifecycle": "testing",
        "served_name": "qwen3.8-flash-next",
        "port": 8000,
        "ctx": 262144,
    }
    found = {"recipes": [{**row, "loaded": True, "enabled": True}]}

    assert plain(shown.HEADS, shown.recipes(found)).splitlines() == [
        "   ID                                        ENGINE      TIER   LIFECYCLE  SERVES"
        "              PORT  CONTEXT",
        f"*  {long}  tensorfold  heavy  testing    qwen3.8-flash-next  8000  262144",
    ]
