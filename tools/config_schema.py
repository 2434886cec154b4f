"""Make config.schema.json, which tells an editor the grammar of the file, from the models.

    python tools/config_schema.py

An editor with a YAML language server finds it by the first line of config.example.yaml. It knows
names and types; what the checker says about references, isolation and LiteLLM's keys it cannot.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from gateway.config.params import DEFAULTS
from gateway.config.providers import ENGINES
from gateway.config.schema import File

OUT: Final = Path(__file__).parent.parent / "config.schema.json"
VARIABLE: Final = {"type": "string", "pattern": "^os\\.environ/[A-Za-z_][A-Za-z0-9_]*$"}
_SWITCHES: Final = ("integer", "number", "boolean")


def text() -> str:
    """The schema as it is written to disk."""
    schema = File.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Signalbox routing"
    blocks = schema["$defs"]
    for block in (schema, *blocks.values()):
        block["properties"] = {k: _field(v) for k, v in block.get("properties", {}).items()}
    params = blocks["LiteLLMParams"]["properties"]
    for name in sorted(DEFAULTS):
        params.setdefault(name, {"description": "Default for the client; extra_body would win"})
    blocks["ModelInfo"]["properties"]["engine"]["examples"] = sorted(ENGINES)
    for block, key in (("GeneralSettings", "master_key"), ("Client", "key")):
        found = blocks[block]["properties"][key]
        blocks[block]["properties"][key] = {**VARIABLE, "description": found["description"]}
    return json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _field(field: dict[str, Any]) -> dict[str, Any]:
    """A number or a switch may come from a variable; a null is as good as absent."""
    kept = {k: v for k, v in field.items() if k not in ("title", "default")}
    given = kept.pop("anyOf", None)
    if given is None:
        said = {k: kept.pop(k) for k in ("description",) if k in kept}
        given = [kept]
        kept = said
    options = [option for option in given if option.get("type") != "null"]
    if any(option.get("type") in _SWITCHES for option in options):
        options.append(VARIABLE)
    options.append({"type": "null"})
    return {"anyOf": options, **kept}


if __name__ == "__main__":
    OUT.write_text(text())
