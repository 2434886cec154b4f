"""Small files for tests of the loader: one line of what matters, the rest around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from common.problems import render
from gateway.config.config import Config, Deployment
from gateway.config.load import Loaded, load_text

ENVIRON = {"MASTER_KEY": "sk-master-0123456789abcdef", "GPU_BASE": "http://gpu-9:8000/v1"}
ADDRESS = "http://gpu-1:8000/v1"


def entry(group: str = "chat", info: Mapping[str, Any] | None = None, **params: Any) -> Any:
    """A model_list entry; a parameter of None is left out."""
    given = {"model": "hosted_vllm/chat-model", "api_base": ADDRESS, **params}
    kept = {key: value for key, value in given.items() if value is not None}
    return {"model_name": group, "litellm_params": kept, "model_info": dict(info or {})}


def file(*entries: Any, **blocks: Any) -> bytes:
    """A file with these entries (or one plain one) and blocks, and a master key."""
    data = {
        "model_list": list(entries) or [entry()],
        "general_settings": {"master_key": "os.environ/MASTER_KEY"},
        **blocks,
    }
    return yaml.safe_dump(data, sort_keys=False).encode()


def load(text: bytes, environ: Mapping[str, str] = ENVIRON, **options: Any) -> Loaded:
    """The file as the checker sees it."""
    return load_text(text, "config.yaml", environ, **options)


def config(text: bytes, environ: Mapping[str, str] = ENVIRON, **options: Any) -> Config:
    """The Config of a file that is right."""
    loaded = load(text, environ, **options)
    assert loaded.config is not None, render(loaded.problems)
    return loaded.config


def deployment(**params: Any) -> Deployment:
    """The deployment that these parameters make; `info` is its model_info."""
    info = params.pop("info", None)
    return config(file(entry(info=info, **params))).deployments[0]


def codes(loaded: Loaded) -> list[str]:
    """The codes of all problems, in order."""
    return [problem.code for problem in loaded.problems]
