"""A program for test_supply.py: the bridge's process with every look-up and connect written down.

`python -m tests.bridge.watched API_BASE`. Python's own loop is used, because what uvloop does in C
raises no audit event. Prints the places that were looked up or connected to.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

_places: set[tuple[str, int]] = set()


def _write_down(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        _places.add((str(args[0]), int(args[1] or 0)))
    elif event == "socket.connect" and isinstance(args[1], tuple):
        _places.add((str(args[1][0]), int(args[1][1])))
    elif event in ("socket.gethostbyname", "socket.gethostbyaddr", "urllib.Request"):
        _places.add((str(args[0]), 0))


CALLS = [
    ("chat", "nebius", False),
    ("chat", "groq", True),
    ("chat", "anthropic", False),
    ("messages", "hosted_vllm", True),
    ("responses", "hosted_vllm", True),
    ("count_tokens", "hosted_vllm", False),
    ("embeddings", "nebius", False),
]


async def _outcome(answers: Any, base: str, dialect: Any, provider: str, stream: bool) -> int:
    from gateway.bridge.answers import Stream
    from gateway.bridge.call import Call
    from tests.client import question

    body = question("m", dialect, stream)
    call = Call(
        id="x",
        dialect=dialect,
        stream=stream,
        provider=provider,
        model="m",
        body=json.dumps(body).encode(),
        api_base=base,
        api_key="key",
        speaks_chat=provider == "hosted_vllm",
    )
    answer = await answers(call)
    if isinstance(answer, Stream):
        async for _ in answer.pieces:
            pass
    return 200


async def _main(base: str) -> None:
    from gateway.bridge import surface
    from gateway.bridge.answers import Answers
    from gateway.bridge.direct import Direct
    from gateway.http1.client import Client

    surface.settle()
    client = Client()
    outcomes = [await _outcome(Answers(Direct(client)), base, *call) for call in CALLS]
    await client.close()
    await asyncio.sleep(0.5)  # what would call home in the background does it now
    sys.stdout.write(json.dumps({"outcomes": outcomes, "places": sorted(_places)}))


if __name__ == "__main__":
    sys.addaudithook(_write_down)
    asyncio.run(_main(sys.argv[1]))
