"""The same answer from the same bytes as aiohttp's client gives, or a failure from both."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
import pytest

from gateway.http1.client import Client, Target
from gateway.http1.errors import ClientError
from tests import captures
from tests.http1.peer import answering, ask, peer, rest
from tests.http1.test_answers import BROKEN_BODY, BROKEN_HEAD, CUT, WHOLE, WHOLE_AT_THE_CLOSE

STRICTER = {
    # What aiohttp lets through. A header that may be read in two ways, a body still in its
    # coding, or a protocol that nobody asked for serves no caller: here these fail.
    "a status below 100",
    "another protocol",
    "a space before the colon",
    "a control character in a value",
    "a DEL in a value",
    "a folded header",
    "a transfer coding not undone",
    "an unknown transfer coding",
    "a control character in a trailer",
}
MORE_FORGIVING = {
    # aiohttp drops a whole answer for what comes after it; here it costs the connection only.
    "more than the length",
    "more than the last chunk",
}
SCRIPTED = {
    **{name: raw for name, (raw, _, _) in WHOLE.items()},
    **{name: raw for name, (raw, _, _) in WHOLE_AT_THE_CLOSE.items()},
    **CUT,
    **BROKEN_HEAD,
    **BROKEN_BODY,
}
CAPTURED = {capture.name: capture.raw for capture in captures.every()}


@dataclass(frozen=True)
class Seen:
    """What a client makes of a whole answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


async def ours(client: Client, target: Target) -> Seen | None:
    """The relay's client's view; None if it fails."""
    try:
        answer = await ask(client, target)
        return Seen(answer.status, tuple(answer.headers), await rest(answer))
    except ClientError:
        return None


async def theirs(session: aiohttp.ClientSession, target: Target) -> Seen | None:
    """Aiohttp's view; None if it fails."""
    url = f"http://{target}/v1/x"
    try:
        async with session.post(url, data=b"{}", allow_redirects=False) as answer:
            headers = tuple((name.lower(), value) for name, value in answer.raw_headers)
            return Seen(answer.status, headers, await answer.read())
    except aiohttp.ClientError:
        return None


@pytest.mark.parametrize("name", [*SCRIPTED, *CAPTURED])
async def test_both_clients_see_the_same(client: Client, name: str) -> None:
    raw = {**SCRIPTED, **CAPTURED}[name]
    async with (
        peer(answering(raw, then="close")) as engine,
        aiohttp.ClientSession(auto_decompress=False) as session,
    ):
        mine, other = await ours(client, engine.target), await theirs(session, engine.target)

    if name in STRICTER:
        assert mine is None
        assert other is not None
    elif name in MORE_FORGIVING:
        assert mine is not None
        assert other is None
    else:
        assert mine == other
