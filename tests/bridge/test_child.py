"""The bridge's process: when it starts, who waits for it, what becomes of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gateway.bridge.child import OFFLINE, BridgeGone, Child, surroundings
from gateway.bridge.translate import BridgeSender
from tests.engine import FakeEngine
from tests.harness import gateway, until
from tests.node import Node, member


def pid_of(bridge: BridgeSender) -> int | None:
    return bridge.child.pid


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


async def test_a_request_that_arrives_before_it_is_ready_waits_and_relayed_ones_do_not() -> None:
    """No provider is bridged: it is loaded by the first request that must be translated.

    Then it dies, and the next request has another one loaded.
    """
    engine = FakeEngine("e")
    bridge = BridgeSender(Child(restart_s=0.0))
    node = Node({"chat": member(engine, {"apis": ["chat"]})}, router={"num_retries": 0})

    async with gateway(node, bridge=bridge) as g:
        assert pid_of(bridge) is None
        waiting = asyncio.create_task(g.client.ask("chat", dialect="messages", within_s=60))
        for _ in range(20):
            assert (await g.client.ask("chat")).status == 200
        assert not waiting.done()
        first = await waiting
        pid = pid_of(bridge)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: pid_of(bridge) is None)
        again = await g.client.ask("chat", dialect="messages", within_s=60)
        other = pid_of(bridge)

    assert (first.status, again.status) == (200, 200)
    assert other is not None
    assert other != pid
    assert not alive(other)  # it ended with the gateway


async def test_it_is_loaded_at_once_where_a_provider_needs_it() -> None:
    engine = FakeEngine("p")
    bridge = BridgeSender()

    async with gateway(
        Node({"chat": member(engine, {"apis": None}, model="nebius/x")}), bridge=bridge
    ):
        await bridge.child.address()

        assert pid_of(bridge) is not None


async def test_waiting_has_a_bound() -> None:
    child = Child(ready_within_s=0.01)

    with pytest.raises(BridgeGone, match="not ready"):
        await child.address()

    await child.close()
    with pytest.raises(BridgeGone):
        await child.address()


async def test_a_bridge_that_cannot_be_loaded_fails_like_an_engine_that_is_down() -> None:
    """The fallback serves; nobody waits for ever."""
    engine, spare = FakeEngine("p"), FakeEngine("spare")
    bridge = BridgeSender(Child({"PYTHONHOME": "/nonexistent"}, restart_s=0.0))
    node = Node(
        {"chat": member(engine, {"apis": None}, model="nebius/x"), "spare": spare},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 0},
    )

    async with gateway(node, bridge=bridge) as g:
        got = await g.client.ask("chat")
        record = await g.record()

    assert got.status == 200
    assert [a["outcome"] for a in record["attempts"]] == ["connect-error", "ok"]


def test_it_ends_when_the_gateway_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import asyncio
        from gateway.bridge.child import Child

        async def main():
            child = Child()
            await child.address()
            print(child.pid, flush=True)
            await asyncio.sleep(60)  # it is killed long before

        asyncio.run(main())
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    lines = (line.decode().strip() for line in parent.stdout)
    pid = int(next(line for line in lines if line.isdigit()))

    parent.kill()
    parent.communicate()

    asyncio.run(until(lambda: not alive(pid)))
    assert not alive(pid)


def test_its_surroundings_hold_no_proxy_no_address_and_no_key_of_ours() -> None:
    environ = {
        "PATH": "/bin",
        "HTTP_PROXY": "http://evil",
        "https_proxy": "http://evil",
        "ALL_PROXY": "http://evil",
        "OPENAI_API_BASE": "http://evil",
        "OPENAI_BASE_URL": "http://evil",
        "ANTHROPIC_BASE_URL": "http://evil",
        "HOSTED_VLLM_API_BASE": "http://evil",
        "AWS_ENDPOINT_URL": "http://evil",
        "LITELLM_RUST": "1",
        "GATEWAY_MASTER_KEY": "sk-secret",
        "KEY_OPEN_WEBUI": "sk-secret",
        "NEBIUS_API_KEY": "sk-provider",
        "AWS_REGION": "eu-north-1",
    }

    made = surroundings(environ)

    assert set(made) - set(OFFLINE) == {"PATH", "PYTHONPATH", "NEBIUS_API_KEY", "AWS_REGION"}
    assert made["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


def test_the_gateways_own_process_never_imports_the_library() -> None:
    code = "import sys, gateway.server, gateway.process; sys.exit('litellm' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
