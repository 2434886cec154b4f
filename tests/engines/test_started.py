"""Start commands that really run here: the embedded engine, and a kit's start script."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serving.engines import engines
from serving.engines.engine import Host, Launch
from serving.recipes.load import FOLDER, load_folder
from tests.clients.llama import MODEL
from tests.ground.repository import ROOT
from tests.recipes.build import GOOD, recipe
from tests.served import free_port

RECIPES = load_folder(FOLDER).recipes


def asked(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own loopback
        return json.loads(answer.read())


@contextmanager
def running(launch: Launch, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, **launch.env}
    environ.pop("ENGINE_KEY", None)
    with log.open("wb") as file:
        process = subprocess.Popen(
            launch.argv, env=environ, cwd=launch.cwd or ROOT, stdout=file, stderr=file
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


async def until_ok(url: str, process: subprocess.Popen[bytes]) -> Any:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return await asyncio.to_thread(asked, url)
        except OSError:  # refused, or 503 while it loads
            await asyncio.sleep(0.05)
    pytest.fail(f"not ready; exit code {process.poll()}")


async def test_the_embedded_engine_serves_as_its_recipe_says(tmp_path: Path) -> None:
    port = free_port()
    text = GOOD.replace("engine: llamacpp", "engine: embedded").replace(
        "port: 8081", f"port: {port}"
    )
    text = text.replace('llamacpp_args: [-ngl, "999"]\n', "").replace(
        "{models}/one.gguf", str(MODEL)
    )
    launch = engines.launch(recipe(tmp_path, text), Host(python=sys.executable))
    url = f"http://127.0.0.1:{launch.port}"

    with running(launch, tmp_path / "log") as process:
        health = await until_ok(url + engines.ENGINES["embedded"].probe.path, process)
        models = asked(url + "/v1/models")
        body = {"model": "one", "messages": [{"role": "user", "content": "hi"}]}
        said = asked(url + "/v1/chat/completions", body)

    assert engines.problems(recipe(tmp_path, text), Host(python=sys.executable)) == ()
    assert health == {"status": "ok"}
    assert [m["id"] for m in models["data"]] == ["one"]
    assert "scripted" in said["choices"][0]["message"]["content"]


def test_a_kit_gets_its_settings_as_variables(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    kit.mkdir()
    (kit / "start.sh").write_text('env > "$(dirname "$0")/seen"; pwd > folder\n')
    host = Host(env={"TENSORFOLD_LAUNCHER": str(kit / "start.sh")}, hf_home=str(tmp_path))
    launch = engines.launch(RECIPES["nvidia-qwen3.8-flash-next-fp4-tensorfold"], host)

    subprocess.run(launch.argv, env={"PATH": os.environ["PATH"], **launch.env}, cwd=launch.cwd)

    seen = dict(line.split("=", 1) for line in (kit / "seen").read_text().splitlines())
    assert (seen["PORT"], seen["PREPARE"], seen["CONTAINER_NAME"]) == (
        "8000",
        "0",
        "qwen38-flash-next-tf",
    )
    assert (kit / "folder").read_text().strip() == str(kit)
