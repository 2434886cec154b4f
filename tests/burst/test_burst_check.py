"""The smoke check of the burst tier, run alone, without this project or any package on its path."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests import markers
from tests.engine import FakeEngine
from tests.engine_answers import Reset, error, reply
from tests.engine_says import usage
from tests.served import free_port

FILE = Path(__file__).parents[2] / "gateway" / "burst_check.py"
KEY = markers.key("burst")
MODELS = ("vendor/other", "z/Nemotron-Super", "a/nemotron-nano")


async def check(
    *arguments: str, base: str = "http://127.0.0.1:9/v1", key: str | None = KEY
) -> tuple[int, str, str]:
    """Exit code, output and errors of the program, as `python3 -I -S` runs it."""
    environ = {"TF_BASE_URL": base} | ({} if key is None else {"NEBIUS_API_KEY": key})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(FILE), *arguments,
        env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_the_first_model_that_matches_is_asked_once_and_shortly() -> None:
    async with FakeEngine(models=MODELS) as engine:
        code, out, err = await check(base=engine.url)

    assert (code, err) == (0, "")
    (body,) = engine.bodies
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("a/nemotron-nano", 512, 0)
    assert [line.split()[0] for line in out.splitlines()] == ["model", "latency", "usage", "reply"]
    assert "Hello from here" in out
    assert '"completion_tokens": 3' in out


async def test_the_key_goes_with_both_calls() -> None:
    async with FakeEngine(models=MODELS) as engine:
        await check(base=engine.url)

    sent = [dict(r.headers).get("authorization") for r in (*engine.probes, *engine.requests)]
    assert sent == [f"Bearer {KEY}"] * 2


async def test_another_model_service_and_key_can_be_named() -> None:
    async with FakeEngine(models=MODELS) as engine:
        code, out, _ = await check("--match", "OTHER", "--base-url", engine.url + "/", "--json")

    found = json.loads(out)
    assert (code, found["ok"], found["model"]) == (0, True, "vendor/other")
    assert found["usage"]["prompt_tokens"] == 7
    assert found["latency_s"] >= 0


async def test_only_reasoning_is_said_to_be_that() -> None:
    message = {"role": "assistant", "content": None, "reasoning_content": "hmm"}
    answer = reply({"choices": [{"index": 0, "message": message}], "usage": usage()})
    async with FakeEngine(models=MODELS, otherwise=answer) as engine:
        code, out, _ = await check(base=engine.url)

    assert code == 0
    assert "only reasoning came back" in out
    assert "hmm" not in out


async def test_without_a_key_nothing_is_called() -> None:
    async with FakeEngine(models=MODELS) as engine:
        code, _, err = await check(base=engine.url, key=None)

    assert (code, engine.probes, engine.requests) == (2, [], [])
    assert "NEBIUS_API_KEY" in err


async def test_a_key_under_another_name_is_asked_for_by_it() -> None:
    code, _, err = await check("--key-env", "OTHER_KEY")

    assert (code, "OTHER_KEY" in err) == (2, True)


async def test_no_model_that_matches_is_a_failure() -> None:
    async with FakeEngine(models=("vendor/other",)) as engine:
        code, _, err = await check(base=engine.url)

    assert (code, engine.requests) == (1, [])
    assert "none of the 1 models listed has 'nemotron' in its name" in err


async def test_a_call_that_fails_is_told_without_the_key() -> None:
    async with FakeEngine(models=MODELS, otherwise=error(500, f"bad key {KEY}")) as engine:
        code, out, err = await check("--json", base=engine.url)

    assert (code, json.loads(out)["ok"]) == (1, False)
    assert "answered 500" in err
    assert KEY not in out + err


async def test_a_broken_answer_and_a_dead_service_are_failures() -> None:
    async with FakeEngine(models=MODELS, otherwise=(Reset(),)) as engine:
        broken = await check(base=engine.url)
    nobody = await check(base=f"http://127.0.0.1:{free_port()}/v1")

    assert (broken[0], nobody[0]) == (1, 1)
    assert "Traceback" not in broken[2] + nobody[2]


async def test_a_redirect_does_not_take_the_key_elsewhere() -> None:
    async with FakeEngine("trap", models=MODELS) as trap:
        moved = reply("", 307, headers=[("location", f"{trap.url}/chat/completions")])
        async with FakeEngine(models=MODELS, otherwise=moved) as engine:
            code, _, _ = await check(base=engine.url)

    assert (code, trap.requests) == (1, [])
