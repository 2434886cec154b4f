"""Small stacks for tests: one engine with what matters, and a routing as the gateway says it."""

from __future__ import annotations

from typing import Any

import yaml

from common.source import read
from serving.stacks.compose import Stack, stack

ADDRESS = "192.0.2.10"


def engine(**given: Any) -> dict[str, Any]:
    """A vLLM service that nothing is wrong with; a key of None is left out."""
    service = {
        "image": "vllm/vllm-openai:v0.32.0",
        "restart": "unless-stopped",
        "ipc": "host",
        "shm_size": "16g",
        "stop_grace_period": "60s",
        "devices": ["nvidia.com/gpu=0"],
        "ports": [f"{ADDRESS}:8000:8000"],
        "volumes": ["/srv/models/one:/models/one:ro", "/srv/cache/one:/cache"],
        "command": ["--model=/models/one", "--served-model-name=chat", "--max-model-len=4096"],
        "healthcheck": {
            "test": ["CMD", "curl", "-f", "http://localhost:8000/health"],
            "start_period": "1800s",
        },
        **given,
    }
    return {key: value for key, value in service.items() if value is not None}


def compose(file: str = "stack.yaml", **services: Any) -> Stack:
    """A compose file with these services."""
    text = yaml.safe_dump({"services": services}, sort_keys=False)
    return stack(read(text.encode(), file), {})


def deployment(**given: Any) -> dict[str, Any]:
    """One deployment, as `gateway routes --json` has it."""
    tier = given.get("tier", "auxiliary")
    return {
        "id": "chat@here",
        "group": "chat",
        "tier": tier,
        "names": [{"name": "chat", "kind": "group", "tier": tier, "how": "direct", "depth": 0}],
        "upstream": {"host": ADDRESS, "port": 8000},
        "api_base": f"http://{ADDRESS}:8000/v1",
        "keyed": False,
        "key_variable": None,
        "line": 7,
        "column": 5,
        "provider": "hosted_vllm",
        "engine": "vllm",
        "served_name": "chat",
        "lane": None,
        "max_input_tokens": 4096,
        **given,
    }


def routes(*deployments: dict[str, Any], **given: Any) -> dict[str, Any]:
    """The whole answer of `gateway routes --json`, as far as stacks read it."""
    return {
        "shape": 1,
        "file": "config.yaml",
        "drain_s": 30.0,
        "deployments": list(deployments),
        **given,
    }
