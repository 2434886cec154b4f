"""Names, aliases, tasks and pins, as a client meets them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client import PATHS
from tests.engine import FakeEngine
from tests.engine_says import Say
from tests.harness import gateway
from tests.node import Node, member

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
DIALECTS = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])


def reference() -> tuple[Node, dict[str, FakeEngine]]:
    """The reference node in small: interactive, auxiliary, weighted background, burst."""
    primary, aux, burst = FakeEngine("primary"), FakeEngine("aux"), FakeEngine("burst")
    background = [
        member(aux, {"id": "bg-aux"}, weight=10),
        member(primary, {"id": "bg-over"}, weight=1, rpm=4, max_parallel_requests=1),
    ]
    node = Node(
        {"primary-chat": primary, "aux-35b": aux, "background-llm": background, "spare": burst},
        tiers={"auxiliary": ["aux-35b"], "background": ["background-llm"], "burst": ["spare"]},
        pins={
            "title": "aux-35b",
            "review": {"model": "background-llm", "fallbacks": False},
        },
        aliases={"fast-chat": "aux-35b", "deep-chat": "primary-chat"},
        router={"fallbacks": [{"primary-chat": ["spare"]}, {"background-llm": ["spare"]}]},
    )
    return node, {"primary": primary, "aux": aux, "burst": burst}


@DIALECTS
@STREAMED
async def test_a_name_reaches_its_engine_on_every_route(dialect: str, stream: bool) -> None:
    node, engines = reference()

    async with gateway(node) as g:
        reply = await g.client.ask("primary-chat", dialect=dialect, stream=stream)

    assert reply.status == 200
    assert engines["primary"].requests[0].path == PATHS[dialect]
    assert engines["primary"].bodies[0]["model"] == "primary-model"
    assert engines["aux"].requests == []
    assert reply.deployment == "primary"
    assert reply.headers["x-gateway-tier"] == "interactive"
    assert reply.attempts == 1
    assert reply.headers["x-gateway-config"]
    assert reply.headers["x-gateway-request-id"] == engines["primary"].requests[0].id


async def test_paths_without_v1_are_served_too() -> None:
    node, engines = reference()

    async with gateway(node) as g:
        reply = await g.client.post("/chat/completions", {"model": "fast-chat", "messages": []})

    assert reply.status == 200
    assert engines["aux"].requests[0].path == "/v1/chat/completions"


@DIALECTS
@STREAMED
async def test_an_alias_has_the_fallbacks_of_its_group(dialect: str, stream: bool) -> None:
    """ALS-01: an alias is a name, not another policy."""
    node, engines = reference()
    engines["primary"].otherwise = FakeEngine(status=500).otherwise

    async with gateway(node) as g:
        reply = await g.client.ask("deep-chat", dialect=dialect, stream=stream)
        record = await g.record()

    assert reply.status == 200
    assert reply.deployment == "burst"
    assert (record["requested_model"], record["group"]) == ("deep-chat", "spare")
    assert record["outcome"] == "ok"


@pytest.mark.parametrize("status", [401, 503])
@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_hidden_alias_reaches_the_later_order_and_is_not_listed(
    dialect: str, status: int
) -> None:
    """ALS-02: order 2 serves when order 1 fails, through a hidden alias as well."""
    first, second = FakeEngine("first", status=status), FakeEngine("second")
    node = Node(
        {"r": [member(first, order=1), member(second, order=2)]},
        aliases={"secret": {"model": "r", "hidden": True}},
    )

    async with gateway(node) as g:
        reply = await g.client.ask("secret", dialect=dialect)
        listed = (await g.client.get("/v1/models")).json

    assert reply.deployment == "second"
    assert [m["id"] for m in listed["data"]] == ["r"]


async def test_lower_orders_are_asked_first_always() -> None:
    first, second = FakeEngine("first"), FakeEngine("second")
    node = Node({"r": [member(second, order=2, weight=9), member(first, order=1, weight=1)]})

    async with gateway(node) as g:
        for _ in range(20):
            await g.client.ask("r")

    assert (len(first.requests), len(second.requests)) == (20, 0)


@pytest.mark.parametrize("marker", ["header", "metadata", "name"])
@DIALECTS
async def test_a_pinned_task_goes_to_its_group_whatever_the_model_says(
    marker: str, dialect: str
) -> None:
    """ALS-06: the documented markers, and nothing else, send a call to the task's group."""
    node, engines = reference()
    how = {
        "header": {"model": "primary-chat", "headers": {"X-Task": "title"}},
        "metadata": {"model": "primary-chat", "metadata": {"task": "title"}},
        "name": {"model": "task/title"},
    }[marker]

    async with gateway(node) as g:
        reply = await g.client.ask(dialect=dialect, **how)  # type: ignore[arg-type]
        record = await g.record()

    assert reply.status == 200
    assert engines["primary"].requests == []
    assert len(engines["aux"].requests) == 1
    assert (record["task"], record["tier"], record["group"]) == ("title", "auxiliary", "aux-35b")


@pytest.mark.parametrize("marker", ["header", "name"])
@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_task_without_a_pin_is_refused_and_told_the_tasks(
    marker: str, dialect: str
) -> None:
    """Promise 3: there is no default route for a task."""
    node, engines = reference()
    how = {
        "header": {"model": "primary-chat", "headers": {"X-Task": "compaction"}},
        "name": {"model": "task/compaction"},
    }[marker]

    async with gateway(node) as g:
        reply = await g.client.ask(dialect=dialect, **how)  # type: ignore[arg-type]
        record = await g.record()

    assert reply.status == 400
    assert reply.error is not None
    assert reply.error["code"] == "unknown_task"
    assert "title" in reply.error["message"]
    assert "review" in reply.error["message"]
    assert all(engine.requests == [] for engine in engines.values())
    assert record["outcome"] == "refused"


async def test_two_tasks_that_differ_are_refused() -> None:
    node, engines = reference()

    async with gateway(node) as g:
        reply = await g.client.ask("task/title", headers={"X-Task": "review"})
        same = await g.client.ask("task/title", headers={"X-Task": "title"})

    assert reply.status == 400
    assert same.status == 200
    assert len(engines["aux"].requests) == 1


async def test_a_pin_without_fallbacks_follows_none() -> None:
    node, engines = reference()
    for name in ("primary", "aux"):
        engines[name].otherwise = FakeEngine(status=500).otherwise

    async with gateway(node) as g:
        pinned = await g.client.ask("task/review")
        free = await g.client.ask("background-llm")

    assert pinned.status == 500
    assert free.deployment == "burst"
    assert len(engines["burst"].requests) == 1


@pytest.mark.parametrize("how", ["header", "body"])
async def test_a_client_may_refuse_fallbacks(how: str) -> None:
    node, engines = reference()
    engines["primary"].otherwise = FakeEngine(status=500).otherwise
    more: dict[str, Any] = {"disable_fallbacks": True}
    if how == "header":
        more = {"headers": {"X-No-Fallback": "true"}}

    async with gateway(node) as g:
        reply = await g.client.ask("primary-chat", **more)

    assert reply.status == 500
    assert engines["burst"].requests == []
    assert "disable_fallbacks" not in engines["primary"].bodies[0]


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses", "embeddings"])
async def test_an_unknown_model_is_404_with_near_names(dialect: str) -> None:
    """ALS-04: never a substitute; the names that are near, among those the key may use."""
    node, engines = reference()

    async with gateway(node) as g:
        reply = await g.client.ask("primary-chatt", dialect=dialect)
        record = await g.record()

    assert reply.status == 404
    assert reply.error is not None
    assert "primary-chat" in reply.error["message"]
    assert (reply.json.get("type") == "error") == (dialect == "messages")
    assert record["requested_model"] is None
    assert (record["outcome"], record["attempts"]) == ("refused", [])
    assert all(engine.requests == [] for engine in engines.values())


@pytest.mark.parametrize(
    "name", ["primary", "hosted_vllm/primary-model", "primary-model", "", "primary-chat "]
)
async def test_ids_and_raw_provider_strings_are_no_names(name: str) -> None:
    node, engines = reference()

    async with gateway(node) as g:
        reply = await g.client.ask(name)

    assert reply.status in (400, 404)
    assert all(engine.requests == [] for engine in engines.values())


async def test_a_burst_group_is_no_name_for_a_client() -> None:
    """Burst is reached by fallback only."""
    node, engines = reference()

    async with gateway(node) as g:
        reply = await g.client.ask("spare")
        listed = (await g.client.get("/v1/models")).json

    assert reply.status in (403, 404)
    assert engines["burst"].requests == []
    assert "spare" not in [m["id"] for m in listed["data"]]


async def test_normal_operation_sends_nothing_to_burst() -> None:
    node, engines = reference()

    async with gateway(node) as g:
        for name in ("primary-chat", "deep-chat", "background-llm", "task/review") * 5:
            assert (await g.client.ask(name)).status == 200

    assert engines["burst"].requests == []


async def test_the_reply_names_the_model_that_the_engine_named() -> None:
    engine = FakeEngine("e", otherwise=Say(model="engines-own-name"))

    async with gateway(Node({"chat": engine})) as g:
        whole = await g.client.ask("chat")
        streamed = await g.client.ask("chat", stream=True)

    assert whole.json["model"] == "engines-own-name"
    assert {e.json["model"] for e in streamed.events if not e.done} == {"engines-own-name"}


async def test_a_dialect_that_no_member_speaks_is_refused() -> None:
    engine = FakeEngine("e")

    async with gateway(Node({"chat": member(engine, {"apis": ["chat"]})})) as g:
        reply = await g.client.ask("chat", dialect="rerank")

    assert reply.status == 400
    assert reply.json["error"]["code"] == "unsupported_endpoint"
    assert engine.requests == []


async def test_a_caller_stays_on_one_member_while_it_is_well() -> None:
    """`affinity`: by a header, or by the key."""
    engines = [FakeEngine(n) for n in ("a", "b", "c")]
    node = Node({"chat": engines}, settings={"affinity": {"chat": "X-Session"}})

    async with gateway(node) as g:
        served = {
            session: {
                (await g.client.ask("chat", headers={"X-Session": session})).deployment
                for _ in range(4)
            }
            for session in ("s1", "s2", "s3", "s4", "s5", "s6")
        }

    assert all(len(members) == 1 for members in served.values())
    assert len(set.union(*served.values())) > 1
