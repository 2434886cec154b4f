"""`python -m bench.micro [WORD ...]`: microseconds of the pieces of one request, in this process.

It says where time goes, and nothing about sockets or the event loop: a change that helps here must
still show in `make bench`. WORDs keep the rows whose name holds one of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from bench.load import body
from common.problems import Place
from gateway.config.config import (
    Activity,
    ClientKey,
    Config,
    Deployment,
    Revision,
    TierRule,
    Upstream,
)
from gateway.events import read_body
from gateway.fit import Fit
from gateway.keys import KeyRing
from gateway.records.activity import ActivityLog
from gateway.records.metrics import Metrics
from gateway.records.record import Usage
from gateway.relay.request import parse
from gateway.routing.choose import candidates
from gateway.routing.facts import RequestFacts
from gateway.routing.health import Health
from gateway.routing.limits import Limits
from gateway.routing.table import build, resolve
from gateway.sse import Scanner
from gateway.trace import Trace

GROUP = "primary-chat"
KEY = "sk-micro-0123456789abcdef"
EVENT = (
    b'data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",'
    b'"created":1760000000,"model":"stand-in/tiny-chat-7b-instruct","system_fingerprint":'
    b'"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":"tok0001 "},"logprobs":null,'
    b'"finish_reason":null}]}\n\n'
)
ANSWER = (
    b'{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion","created":'
    b'1760000000,"model":"stand-in/tiny-chat","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"The capital of France is Paris, on the Seine."},"finish_reason":"stop"}],"usage":'
    b'{"prompt_tokens":24,"completion_tokens":50,"total_tokens":74,"prompt_tokens_details":'
    b'{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":0}}}'
)
PER_SECOND, MINUTE = 4000, 60.0  # the load under which permits are timed

Piece = Callable[[], object]


async def main(words: list[str]) -> int:
    """Print a line for each piece: the best of five, in microseconds.

    Nothing here waits; a request is known by the task that serves it, so there must be one.
    """
    for name, piece in pieces():
        if not words or any(word in name for word in words):
            print(f"{microseconds(piece):9.2f}  {name}", flush=True)
    return 0


def microseconds(piece: Piece, repeats: int = 5, seconds: float = 0.1) -> float:
    """The best of `repeats` runs of about `seconds` each: what noise added is left out."""
    count, took = 1, 0.0
    while took < seconds / 4:
        count *= 2
        took = _timed(piece, count)
    count = max(1, int(count * seconds / took))
    return min(_timed(piece, count) for _ in range(repeats)) / count * 1e6


def _timed(piece: Piece, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        piece()
    return time.perf_counter() - began


def config(folder: Path) -> Config:
    """Two capped members of one interactive group, and one client key."""
    first = Deployment(
        id="primary-chat@127.0.0.1:8000/tiny-chat",
        group=GROUP,
        place=Place("micro.yaml", 1, 1),
        provider="hosted_vllm",
        served_name="tiny-chat",
        mode="chat",
        upstream=Upstream("127.0.0.1", 8000),
        api_base="http://127.0.0.1:8000/v1",
        relays=frozenset({"chat"}),
        weight=3,
        rpm=10**8,
        tpm=10**12,
        max_parallel_requests=4096,
        max_input_tokens=131072,
        drop_params=frozenset({"user"}),
    )
    return Config(
        path="micro.yaml",
        revision=Revision(sha256="0" * 64),
        deployments=(first, replace(first, id="second", weight=1)),
        tiers={GROUP: "interactive"},
        tier_rules={"interactive": TierRule(max_wait_s=10, max_waiting=64)},
        client_keys=(ClientKey(name="bench", key=KEY, tiers=frozenset({"interactive"})),),
        activity=Activity(path=str(folder / "activity.jsonl")),
    )


def pieces() -> Iterator[tuple[str, Piece]]:
    """Every piece by name, in the order of a request's way. Needs a running loop."""
    with tempfile.TemporaryDirectory() as folder:
        conf = config(Path(folder))
        yield from _reading(conf)
        yield from _choosing(conf)
        yield from _streaming()
        yield from _recording(conf)


def _trace(conf: Config) -> Trace:
    """A request that has just arrived."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 -- see main
    table = build(conf)
    return Trace(
        id=b"0" * 16,
        task=task,
        at=time.time(),
        started=0.0,
        client=KeyRing(conf, table).who(b"Bearer " + KEY.encode(), None),
        client_ip="127.0.0.1",
        app="OpenAI/Python 2.8.0",
        dialect="chat",
        config=str(conf.revision),
        route=table.routes[GROUP],
    )


def _reading(conf: Config) -> Iterator[tuple[str, Piece]]:
    table, sent, trace = build(conf), body(GROUP, stream=True), _trace(conf)
    keys, bearer = KeyRing(conf, table), b"Bearer " + KEY.encode()
    fit, request = Fit.of(conf.deployments[0]), parse(sent, {}, trace, {})
    yield "request: key", lambda: keys.who(bearer, None)
    yield "request: body parsed", lambda: parse(sent, {}, trace, {})
    spaced = json.dumps(json.loads(sent)).encode()
    yield "request: body parsed, spaces after its commas", lambda: parse(spaced, {}, trace, {})
    yield "request: route", lambda: resolve(table, GROUP, None, trace.client.names)
    yield "request: body fitted to a deployment", lambda: fit.body(request)


def _choosing(conf: Config) -> Iterator[tuple[str, Piece]]:
    group, facts = build(conf).groups[GROUP], RequestFacts(dialect="chat", prompt_tokens=60)
    health, random = Health(), Random(1)
    yield (
        "choose: two members",
        lambda: candidates(group, facts, health=health, now=1.0, random=random, bridge=False),
    )
    member = conf.deployments[0]
    uncapped = replace(member, id="uncapped", rpm=None, tpm=None)
    yield "permit: parallel cap only", _permits(uncapped)
    yield f"permit: rpm, {PER_SECOND} a second", _permits(replace(member, tpm=None))
    yield f"permit: rpm and tpm, {PER_SECOND} a second", _permits(member)


def _permits(member: Deployment) -> Piece:
    """A permit taken and given back, in a window that is full of others."""
    limits, now = Limits(), 0.0

    def one(used: int | None = 74) -> None:
        nonlocal now
        now += 1 / PER_SECOND
        permit = limits.take(member, now, 1000)
        if permit is not None:
            permit.give_back(used)

    for _ in range(int(PER_SECOND * MINUTE)):  # an empty window would flatter a slow search
        one(None)
    return one


def _streaming() -> Iterator[tuple[str, Piece]]:
    for events in (1, 8, 32):
        read, scanner = EVENT * events, Scanner("chat")
        yield f"stream: a read of {events} events", partial(scanner.feed, read)
    crlf, with_crlf = EVENT.replace(b"\n", b"\r\n"), Scanner("chat")
    yield "stream: a read of 1 event with CRLF", lambda: with_crlf.feed(crlf)
    half, torn = len(EVENT) // 2, Scanner("chat")
    yield (
        "stream: an event in two reads",
        lambda: (torn.feed(EVENT[:half]), torn.feed(EVENT[half:])),
    )
    yield "answer: usage of a whole body", lambda: read_body(ANSWER)


def _recording(conf: Config) -> Iterator[tuple[str, Piece]]:
    member, arrived = conf.deployments[0], _trace(conf)

    def trace() -> Trace:
        made = msgspec.structs.replace(arrived, attempts=[])
        made.usage = Usage(prompt_tokens=24, cached_tokens=16, completion_tokens=50)
        made.attempted(member, "ok", 0.1)
        return made

    record = trace().record(0.2)
    metrics, log = Metrics(), ActivityLog(conf.activity, max_waiting=2000)
    yield "record: traced and made", lambda: trace().record(0.2)
    yield "record: counted in the metrics", lambda: metrics.observe(record)

    def written() -> None:
        for _ in range(1000):
            log.write(record)
        log.flush()

    log.start()
    yield "record: 1000 handed to the log and written to the disk", written
    log.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
