"""However the bytes are cut into reads, the answers are the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.serving import Said, chunked, ours, post

BODIES = st.lists(
    st.tuples(st.binary(max_size=40), st.sampled_from([post, chunked])), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(BODIES, st.data())
async def test_cut_anywhere_requests_are_answered_in_their_order(
    requests: list[tuple[bytes, object]], data: st.DataObject
) -> None:
    sent = b"".join((post if kind is post else chunked)(body) for body, kind in requests)
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=12).map(sorted))
    edges = [0, *cuts, len(sent)]

    async with ours() as server, server.connected() as wire:
        await wire.send_in([sent[a:b] for a, b in zip(edges, edges[1:], strict=False)])
        got = [await wire.answer() for _ in requests]

    assert got == [Said(200, body) for body, _ in requests]


async def test_byte_by_byte() -> None:
    sent = post(b"hello", b"X-Long: " + b"y" * 50) + chunked(b"two", trailers=b"X: 1\r\n")

    async with ours() as server, server.connected() as wire:
        await wire.send_in([bytes([byte]) for byte in sent])

        assert await wire.answer() == Said(200, b"hello")
        assert await wire.answer() == Said(200, b"two")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 60))
async def test_whatever_comes_the_server_lives_and_the_connection_ends_or_waits(
    rubbish: bytes, keep: int
) -> None:
    async with ours() as server:
        async with server.connected() as wire:
            await wire.send_in([post(b"x")[:keep], rubbish])
        got, _ = await server.ask(post(b"well"))

    assert got == [Said(200, b"well")]
