"""A scripted engine, called as llama-server is: `engine_program.py -m MODEL --alias NAME ...`.

Its settings are options of its own. Each start and each request is a line in a file that all of
them share (`--events`), so that a test sees who ran when.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HTML = b"<!doctype html><title>Hello</title>"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add = parser.add_argument
    add("-m", dest="model")
    add("--alias")
    add("--host")
    add("--port", type=int)
    add("--events")
    add("--load-s", type=float, default=0.0)  # the port opens after it
    add("--health-late-s", type=float, default=0.0)  # the model list answers, health does not yet
    add("--dies-after-s", type=float)
    add("--ignores-term", action="store_true")
    add("--leaves-child", action="store_true")  # in a session of its own, ignoring SIGTERM
    add("--html", action="store_true")  # 200 with a page, whatever is asked
    add("--listens", type=int)  # another port than it was told
    add("--serves")  # another name than it was told
    add("--says", default="")
    return parser.parse_known_args()[0]


GIVEN = options()
BEGAN = time.monotonic()


def note(event: str) -> None:
    with Path(GIVEN.events).open("a") as file:
        file.write(json.dumps({"event": event, "who": GIVEN.alias, "pid": os.getpid()}) + "\n")


class Handler(BaseHTTPRequestHandler):
    """Answers as the options say."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if GIVEN.html:
            self.send(200, HTML, "text/html")
        elif self.path == "/health":
            late = time.monotonic() - BEGAN < GIVEN.load_s + GIVEN.health_late_s
            said = b'{"error": {"message": "Loading model"}}' if late else b'{"status": "ok"}'
            self.send(503 if late else 200, said)
        else:
            name = GIVEN.serves or GIVEN.alias
            self.send(200, json.dumps({"data": [{"id": name}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if GIVEN.html:
            self.send(200, HTML, "text/html")
            return
        note("smoke" if "ok" in body["messages"][0]["content"] else "chat")
        if body.get("stream"):
            events: list[dict[str, Any]] = [
                {"choices": [{"delta": {"content": word}}]} for word in ("one ", "two")
            ]
            events.append({"choices": [], "usage": {"completion_tokens": 2}})
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            self.send(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")
            return
        message = {"role": "assistant", "content": "ok"}
        self.send(200, json.dumps({"choices": [{"message": message}]}).encode())


def main() -> None:
    note("start")
    sys.stdout.write(f"{GIVEN.alias} starts {GIVEN.says}\n")
    sys.stdout.flush()
    if GIVEN.ignores_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if GIVEN.leaves_child:
        code = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\nwhile 1: time.sleep(0.5)"
        child = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
        Path(f"{GIVEN.events}.child").write_text(str(child.pid))
    if GIVEN.dies_after_s is not None:
        threading.Timer(GIVEN.dies_after_s, lambda: os._exit(3)).start()
    time.sleep(GIVEN.load_s)
    server = ThreadingHTTPServer((GIVEN.host, GIVEN.listens or GIVEN.port), Handler)
    note("listens")
    server.serve_forever()


if __name__ == "__main__":
    main()
