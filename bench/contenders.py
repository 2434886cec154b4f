"""What is compared: how each contender is set up, started and asked. Data before code.

All get the same task: two deployments of one model, weights 3 to 1 where they have weights, on
one core, from one process. Only the gateway writes records.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from bench.rig import BUILT, ROOT

UPSTREAMS = 5  # ports of the stand-in engine; the peers use the first two
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a contender is given: a folder, two ports, the stand-in engine's ports, a client key."""

    folder: Path
    port: int
    spare_port: int
    upstreams: tuple[int, ...]
    key: str = field(repr=False)

    def write(self, name: str, template: str) -> Path:
        """The template with this scene filled in, as a file in the folder."""
        known: dict[str, object] = {f"up{i}": port for i, port in enumerate(self.upstreams)}
        known |= {"port": self.port, "folder": self.folder, "key": self.key}
        path = self.folder / name
        path.write_text(Template(template).substitute(known))
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One row of the table. `command` is None for the stand-in engine itself."""

    name: str
    command: Callable[[Scene], list[str]] | None
    ready_path: str | None = "/health"  # answers 200 when ready; None: any answer to "/" will do
    warm_s: float = 0.5
    records: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    version: str = ""


GATEWAY_FILE = Path(__file__).with_name("gateway.yaml")

NGINX_FILE = """\
worker_processes 1;
daemon off;
pid $folder/nginx.pid;
error_log $folder/error.log;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
  upstream engine {
    server 127.0.0.1:$up0 weight=3;
    server 127.0.0.1:$up1 weight=1;
    keepalive 256;
    keepalive_requests 100000000;
  }
  server {
    listen 127.0.0.1:$port backlog=4096;
    keepalive_requests 100000000;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
"""

LITELLM_FILE = """\
model_list:
  - model_name: primary-chat
    litellm_params: {model: hosted_vllm/tiny-chat, api_base: "http://127.0.0.1:$up0/v1",
                     api_key: sk-upstream, weight: 3, additional_drop_params: [user]}
  - model_name: primary-chat
    litellm_params: {model: hosted_vllm/tiny-chat, api_base: "http://127.0.0.1:$up1/v1",
                     api_key: sk-upstream, weight: 1, additional_drop_params: [user]}
general_settings: {master_key: "$key"}
"""

# LiteLLM would otherwise fetch its cost map and more from the internet when it is imported.
LITELLM_OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOG": "ERROR",
}


def direct() -> Contender:
    """The stand-in engine itself."""
    return Contender(name="direct", command=None)


def gateway(python: str = sys.executable) -> Contender:
    """This gateway with all accounting on, run by `python` from this checkout."""

    def command(scene: Scene) -> list[str]:
        file = scene.write("config.yaml", GATEWAY_FILE.read_text())
        return [python, "-m", "gateway.cli", "serve", "-c", str(file)]

    environ = {"PYTHONPATH": str(ROOT), "BENCH_UPSTREAM_KEY": "sk-upstream"}
    return Contender(
        name="gateway",
        command=command,
        ready_path="/health/live",
        records=True,
        environ=environ,
        version=_said(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
    )


def nginx(program: str | None) -> Contender | None:
    """What moving the bytes alone costs: nginx as a plain reverse proxy."""
    found = _program(program or "nginx", "/usr/sbin/nginx")
    if found is None:
        return None

    def command(scene: Scene) -> list[str]:
        file = scene.write("nginx.conf", NGINX_FILE)
        return [found, "-p", str(scene.folder), "-c", str(file)]

    version = _said([found, "-v"]).rpartition("/")[2]
    return Contender(name="nginx", command=command, version=version)


def litellm(venv: str | None) -> Contender | None:
    """The stock LiteLLM proxy, one worker, no database, no callbacks."""
    found = _program(str(Path(venv or BUILT / "litellm") / "bin" / "litellm"))
    if found is None:
        return None

    def command(scene: Scene) -> list[str]:
        file = scene.write("litellm.yaml", LITELLM_FILE)
        where = ["--host", "127.0.0.1", "--port", str(scene.port)]
        return [found, "--config", str(file), *where, "--telemetry", "False"]

    return Contender(
        name="litellm",
        command=command,
        ready_path="/health/liveliness",
        warm_s=3.0,  # 64 streams take it several seconds to begin
        environ=LITELLM_OFFLINE,
        version=_installed(found, "litellm"),
    )


def vllm_router(venv: str | None) -> Contender | None:
    """A compiled peer: vLLM's router, in Rust."""
    venv_program = Path(venv or BUILT / "vllm-router") / "bin" / "vllm-router"
    found = _program(str(venv_program), *([] if venv else ["vllm-router"]))
    if found is None:
        return None

    def command(scene: Scene) -> list[str]:
        workers = [f"http://127.0.0.1:{port}" for port in scene.upstreams[:2]]
        where = ["--host", "127.0.0.1", "--port", str(scene.port)]
        metrics = ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(scene.spare_port)]
        how = ["--policy", "round_robin", "--log-level", "warning"]
        return [found, "--worker-urls", *workers, *how, *where, *metrics]

    return Contender(name="vllm-router", command=command, version=_installed(found, "vllm-router"))


def another(text: str) -> Contender:
    """`NAME=COMMAND`, for another checkout or a prototype.

    {port}, {up0}, {up1}, {key} and {config} (the gateway's file) are filled in.
    """
    name, _, line = text.partition("=")
    if not name or not line:
        raise ValueError(f"{text!r} is not NAME=COMMAND")

    def command(scene: Scene) -> list[str]:
        file = scene.write("config.yaml", GATEWAY_FILE.read_text())
        known = {f"up{i}": port for i, port in enumerate(scene.upstreams)}
        filled = line.format(port=scene.port, key=scene.key, config=file, **known)
        return filled.split()

    environ = {"BENCH_UPSTREAM_KEY": "sk-upstream", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return Contender(name=name, command=command, ready_path=None, environ=environ)


def _program(*names: str) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


def _said(command: list[str]) -> str:
    """The first line a command prints, on either stream; empty where it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return ""
    return (done.stdout + done.stderr).strip().partition("\n")[0]


def _installed(program: str, distribution: str) -> str:
    python = Path(program).with_name("python")
    code = f"import importlib.metadata as m; print(m.version('{distribution}'))"
    return _said([str(python), "-c", code])
