"""A draft of a recipe for a catalog id and an engine: what can be known, and what to fill in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from serving.errors import Unusable
from serving.recipes.defaults import DEFAULTS
from serving.recipes.schema import EngineName

SLUG: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

# Under {models} a model lies as it is called in the catalog.
_BLOCKS: Final[Mapping[EngineName, str]] = {
    "eugr": "eugr_recipe: services/{slug}.yaml\n",
    "vllm": (
        "vllm:\n  image: vllm/vllm-openai:v0.32.0\n"
        '  model: "{{models}}/{lab}/{slug}"\n'
        '  args: [--gpu-memory-utilization, "0.8"]\n'
    ),
    "sglang": (
        "sglang:\n  image: lmsysorg/sglang:v0.5.23\n"
        '  model: "{{models}}/{lab}/{slug}"\n  mem_fraction: 0.8\n'
    ),
    "llamacpp": (
        'model: "{{models}}/{lab}/{slug}/{slug}.gguf"  # the file of one quantization\n'
        'llamacpp_args: [-ngl, "999", --jinja, --metrics]\n'
    ),
    "ds4": 'model: "{{models}}/{lab}/{slug}/{slug}.gguf"\nds4_args: [-c, "32768"]\n',
    "sparkinfer": "pin: pins/{slug}.yaml  # write this file: docs/recipes.md\n",
    "flashnext": 'flashnext:\n  launcher: "{{models}}/{lab}/{slug}-kit/start.sh"\n',
    "tensorfold": (
        'tensorfold:\n  launcher: "{{models}}/{lab}/{slug}-kit/start.sh"\n  prepare: "0"\n'
    ),
    "embedded": 'model: "{{models}}/{lab}/{slug}.gguf"\nembedded: {{threads: 1, parallel: 2}}\n',
}
_FILE: Final = """# Scaffolded: fill in, try with `serving slot up ID --dry-run`, then promote.
id: {id}
name: {name} ({engine})
catalog_id: {catalog}
inventory_path: {catalog}
engine: {engine}
tier: {tier}
lifecycle: draft
served_name: {served}
port: {port}
{block}context:
  default: 32768  # what it starts with; `native` is what the model was trained for
tags: []
"""


_SERVICE: Final = """# What the recipe runner starts. Doubled braces are braces of the command.
recipe_version: "1"
name: {name}
model: {catalog}
container: vllm-node
defaults:
  port: 8000
  host: 127.0.0.1
  tensor_parallel: 1
  gpu_memory_utilization: 0.8
  max_model_len: 32768
  served_model_name: {served}
command: |
  vllm serve {catalog} \\
    --served-model-name {{served_model_name}} \\
    --host {{host}} --port {{port}} \\
    --tensor-parallel-size {{tensor_parallel}} \\
    --gpu-memory-utilization {{gpu_memory_utilization}} \\
    --max-model-len {{max_model_len}}
"""


def recipe_id(catalog_id: str, engine: EngineName) -> str:
    """Lab, model and engine, as ids are written. Raises Unusable for what is no slug."""
    if not SLUG.fullmatch(catalog_id):
        raise Unusable(f"`{catalog_id}` is no LAB/SLUG, such as qwen/qwen3.8-27b")
    text = f"{catalog_id}-{engine}".lower().replace("/", "-")
    return re.sub(r"[^a-z0-9._-]+", "-", text)


def service(catalog_id: str) -> tuple[str, str]:
    """The name of the service file that a draft of eugr names, and its text."""
    slug = catalog_id.partition("/")[2]
    text = _SERVICE.format(name=slug, catalog=catalog_id, served=slug.lower())
    return f"services/{slug.lower()}.yaml", text


def scaffold(catalog_id: str, engine: EngineName) -> str:
    """The text of the draft's file."""
    own = recipe_id(catalog_id, engine)
    lab, _, slug = catalog_id.partition("/")
    block = _BLOCKS[engine].format(lab=lab.lower(), slug=slug.lower())
    return _FILE.format(
        id=own,
        name=slug,
        engine=engine,
        catalog=catalog_id.lower(),
        tier="fast" if engine == "embedded" else "heavy",
        served=slug.lower(),
        port=DEFAULTS[engine].port,
        block=block,
    )
