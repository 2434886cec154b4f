"""A program for test_ways.py: one chat request per provider, the direct way and then the plain one.

`python -m tests.bridge.both_ways API_BASE REQUEST`, in the surroundings of the bridge's process.
Prints {provider: [direct answer, plain answer]}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from gateway.bridge import direct, plain, surface
from gateway.bridge.call import Call
from gateway.bridge.named import split
from gateway.http1.client import Client

PROVIDERS = sorted(direct.OPENAI_WIRE | {"anthropic"})


async def _both(client: Client, provider: str, base: str, request: dict[str, Any]) -> list[Any]:
    call = Call(
        id="x",
        dialect="chat",
        stream=False,
        provider=provider,
        model="some-model",
        body=b"",
        api_base=base,
        api_key="key",
        drop_params=True,
    )
    named, extras = split("chat", request, fixed=(), drop=True)
    response = await direct.Direct(client).send(call, dict(named), extras)
    one = await direct.whole(call, response, named)
    wrapped = {"extra_body": extras} if provider != "anthropic" else extras
    other = surface.plain(await plain.chat(call, named, wrapped))
    return [one, other]


async def _main(base: str, request: dict[str, Any]) -> None:
    surface.settle()
    client = Client()
    said = {name: await _both(client, name, base, request) for name in PROVIDERS}
    await client.close()
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
