"""Is the burst tier's service there? One small chat with a model that it lists now.

Standard library only: it also runs alone, anywhere, as `python3 gateway/burst_check.py`.

    NEBIUS_API_KEY=... python3 gateway/burst_check.py --match nemotron

No model's name is written here: services rename them. The first one (sorted) that matches is asked.

Exit codes: 0 it answered; 1 nothing matches, or the call failed; 2 no key, or wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

BASE_URL = "https://api.tokenfactory.nebius.com/v1"
KEY_ENV = "NEBIUS_API_KEY"
TIMEOUT_S = 60.0
MAX_TOKENS = 512
MAX_BYTES = 4 * 1024 * 1024
PROMPT = "Reply with one short sentence: what is a signal box for?"


class Failed(Exception):
    """The service did not answer as it should. The message says how, and holds no key."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    # A redirect would take the key to another host.
    def redirect_request(self, *_: Any) -> None:
        return None


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--match", default="nemotron", help="part of the model's name (nemotron)")
    parser.add_argument("--base-url", metavar="URL", help=f"(TF_BASE_URL, else {BASE_URL})")
    parser.add_argument("--key-env", default=KEY_ENV, metavar="NAME", help=f"({KEY_ENV})")
    parser.add_argument("--json", action="store_true", help="the same as data")


def run(args: argparse.Namespace) -> int:
    """Check once and print what came; the exit code."""
    key = os.environ.get(args.key_env, "").strip()
    if not key:
        print(f"burst-check: no key: set {args.key_env}", file=sys.stderr)
        return 2
    base = (args.base_url or os.environ.get("TF_BASE_URL") or BASE_URL).rstrip("/")
    try:
        found = check(base, key, args.match)
    except Failed as failed:
        if args.json:
            print(json.dumps({"ok": False, "base_url": base, "error": str(failed)}))
        print(f"burst-check: {failed}", file=sys.stderr)
        return 1
    print(json.dumps(found) if args.json else said(found))
    return 0


def check(base: str, key: str, match: str) -> dict[str, Any]:
    """List the models, ask the first that matches. Raises Failed."""
    model = pick(_call(f"{base}/models", key), match)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
    }
    began = time.perf_counter()
    answer = _call(f"{base}/chat/completions", key, body)
    latency_s = time.perf_counter() - began
    message = _message(answer)
    reply, reasoning = message.get("content"), message.get("reasoning_content")
    reasoning = reasoning or message.get("reasoning")
    if not reply and not reasoning:
        raise Failed(f"{model} answered with neither content nor reasoning")
    return {
        "ok": True,
        "base_url": base,
        "model": model,
        "latency_s": round(latency_s, 3),
        "usage": answer.get("usage"),
        "reply": reply or "",
        "only_reasoning": not reply,
    }


def pick(listed: dict[str, Any], match: str) -> str:
    """The first model id, sorted, that holds `match` in any case. Raises Failed."""
    rows = listed.get("data")
    rows = rows if isinstance(rows, list) else []
    ids = sorted(str(row["id"]) for row in rows if isinstance(row, dict) and row.get("id"))
    found = [name for name in ids if match.lower() in name.lower()]
    if not found:
        raise Failed(f"none of the {len(ids)} models listed has '{match}' in its name")
    return found[0]


def said(found: dict[str, Any]) -> str:
    """The result for people."""
    usage = json.dumps(found["usage"]) if found["usage"] else "not told"
    reply = found["reply"]
    if found["only_reasoning"]:
        reply = f"(only reasoning came back: {MAX_TOKENS} tokens were not enough for an answer)"
    lines = (
        ("model", found["model"]),
        ("latency", f"{found['latency_s']:.2f} s"),
        ("usage", usage),
        ("reply", reply),
    )
    return "\n".join(f"{name:<8} {value}" for name, value in lines)


def _message(answer: dict[str, Any]) -> dict[str, Any]:
    try:
        message = answer["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        raise Failed("the answer to the chat has no message") from None
    return message if isinstance(message, dict) else {}


def _call(url: str, key: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One JSON call within TIMEOUT_S of silence. Raises Failed."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, headers)  # noqa: S310 -- the operator's own URL
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=TIMEOUT_S) as response:
            answer = json.loads(response.read(MAX_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            told = error.read(500).decode("utf-8", "replace").replace(key, "***")
        raise Failed(f"{url} answered {error.code}: {' '.join(told.split())}") from None
    except (OSError, ValueError) as error:
        raise Failed(f"{url}: {str(error).replace(key, '***')}") from None
    if not isinstance(answer, dict):
        raise Failed(f"{url} answered with no JSON object")
    return answer


def main(argv: Sequence[str] | None = None) -> int:
    """The command by itself."""
    parser = argparse.ArgumentParser(
        prog="burst_check.py", description="One small call to the burst tier's service."
    )
    arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
