"""Modules as other people write them, put next to a file for the callbacks' process to load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.node import Node

# Notes each call, and what of it a logger usually reads.
NOTES = """
import json, os, pathlib
from litellm.integrations.custom_logger import CustomLogger

class Notes(CustomLogger):
    def __init__(self):
        super().__init__()
        self.file = pathlib.Path(__file__).with_name("notes.jsonl")

    def note(self, hook, kwargs, response_obj, **more):
        payload = kwargs["standard_logging_object"]
        usage = getattr(response_obj, "usage", None)
        row = {
            "hook": hook,
            "model": kwargs["model"],
            "group": kwargs["litellm_params"]["metadata"]["model_group"],
            "client": payload["metadata"]["user_api_key_alias"],
            "messages": kwargs["messages"],
            "payload_messages": payload["messages"],
            "response": str(payload["response"]),
            "type": type(response_obj).__name__,
            "tokens": [payload["prompt_tokens"], payload["completion_tokens"]],
            "usage": None if usage is None else usage.total_tokens,
            "status": payload["status"],
            "seconds": (more["end_time"] - more["start_time"]).total_seconds(),
            "exception": type(kwargs.get("exception")).__name__,
            "keys": sorted(kwargs), "payload_keys": sorted(payload),
            **{k: str(v) for k, v in more.items() if not k.endswith("_time")},
        }
        print("what callbacks print goes to the log")
        with self.file.open("a") as out:
            out.write(json.dumps(row, default=str) + "\\\\n")

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.note("success", kwargs, response_obj, start_time=start_time, end_time=end_time)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self.note("failure", kwargs, response_obj, start_time=start_time, end_time=end_time)

    async def log_success_fallback_event(self, original_model_group, kwargs, original_exception):
        self.note("fallback", kwargs, None, start_time=kwargs["start_time"],
                  end_time=kwargs["end_time"], instead_of=original_model_group,
                  after=type(original_exception).__name__)

notes = Notes()
""".replace("\\\\n", "\\n")

# Each of these would spoil a gateway that ran it in its own loop.
BAD = """
import time
from litellm.integrations.custom_logger import CustomLogger

class Raises(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        raise ValueError(str(kwargs))

class Blocks(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        time.sleep(3600)  # other people's code that hangs: what the test is about

raises, blocks = Raises(), Blocks()
"""

# Ends the process that it runs in.
ENDS = """
import os
from notes_cb import Notes

class Ends(Notes):
    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        os._exit(7)

ends = Ends()
"""

BROKEN = "raise RuntimeError('no such service')\nhook = None\n"


def with_callbacks(node: Node, activity: Path, *names: str, content: bool = False) -> bytes:
    """The node's file with these callbacks."""
    data = yaml.safe_load(node.yaml(str(activity)))
    data["litellm_settings"] = {"callbacks": list(names)}
    data["gateway_settings"]["callback_content"] = content
    return yaml.safe_dump(data, sort_keys=False).encode()


def write_modules(folder: Path) -> None:
    """Put the modules into the folder of the file."""
    for name, text in (
        ("notes_cb", NOTES),
        ("bad_cb", BAD),
        ("broken_cb", BROKEN),
        ("ends_cb", ENDS),
    ):
        (folder / f"{name}.py").write_text(text)


def noted(folder: Path) -> list[dict[str, Any]]:
    """What the good one has noted so far."""
    file = folder / "notes.jsonl"
    return [json.loads(x) for x in file.read_text().splitlines()] if file.exists() else []
