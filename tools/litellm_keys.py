"""Make gateway/config/litellm_keys.json from the source of the pinned LiteLLM release.

    python tools/litellm_keys.py PATH/TO/site-packages/litellm

The source is parsed, never imported. Which names LiteLLM reads in each block comes from it; what
leaving one out would weaken is the table UNSAFE below, kept by hand and read at each new release.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

OUT: Final = Path(__file__).parent.parent / "gateway" / "config" / "litellm_keys.json"

# Reasons, by what is lost where the key has no effect.
ACCESS: Final = "it limits who may call what, and that limit would not hold"
AUTH: Final = "it changes who is let in; keys are made in gateway_settings.client_keys"
BUDGET: Final = "it is a budget, and nothing would stop spending"
CAPS: Final = "it is a cap that would not hold; use rpm, tpm and max_parallel_requests"
CONTENT: Final = "it inspects or blocks content, and nothing would be inspected"
DATABASE: Final = "this gateway has no database: the file is the state"
FILES: Final = "what it brings in would be missing; write everything in this file"
SECRETS: Final = "secrets stay out of the file: use os.environ/NAME, and --env-file"
CLOUD: Final = "credentials belong to a deployment: write them under its litellm_params"
TEST: Final = "it invents answers that no engine gave"

# (block, or * for any; pattern of the whole name; what is lost)
UNSAFE: Final = (
    (
        "*",
        r"guardrails?|policies|policy_attachments|guardrail_list|disable_global_guardrails?",
        CONTENT,
    ),
    (
        "*",
        r"(banned|blocked)_.*|.*_moderations?.*|prompt_injection_params|post_call_rules",
        CONTENT,
    ),
    ("*", r"input_callback_rules|pre_call_rules|presidio_.*|llamaguard_.*|llm_guard_.*", CONTENT),
    ("*", r"google_moderation_.*|openai_moderations_.*|azure_content_safety_params", CONTENT),
    ("*", r".*budget.*", BUDGET),
    ("*", r"database_.*|.*_in_db|use_redis_transaction_buffer|store_prompts_in_.*", DATABASE),
    ("file", r"include", FILES),
    ("file", r"environment_variables|credential_list", SECRETS),
    ("file", r"default_vertex_config", CLOUD),
    ("file", r"team_config|access_groups", ACCESS),
    ("*", r"enable_jwt_auth|litellm_jwtauth|enable_oauth2.*|oauth2_config_mappings", AUTH),
    ("*", r"custom_auth.*|custom_key_.*|custom_sso|custom_ui_sso.*|user_api_key_.*auth.*", AUTH),
    ("general_settings", r"allowed_(ips|routes)|admin_only_routes|public_routes|.*_routes", ACCESS),
    ("general_settings", r"role_(permissions|mappings)|enforce(d|_).*|user_header_.*", ACCESS),
    ("general_settings", r"allow_client_side_credentials|allow_user_auth|key_management_.*", AUTH),
    (
        "general_settings",
        r"(global_)?max_parallel_requests|max_(in_flight|queued)_requests_.*",
        CAPS,
    ),
    ("general_settings", r"max_(request|response)_size_mb", "use gateway_settings.max_body_mb"),
    ("litellm_settings", r"default_(internal_user|team|key)_.*|upperbound_key_.*", ACCESS),
    ("litellm_settings", r"(default_)?max_internal_.*|enable_post_custom_auth_checks", ACCESS),
    ("litellm_settings", r".*api_(key|base)|.*_key|organization|headers", CLOUD),
    ("router_settings", r"enable_tag_filtering|tag_filtering_match_any|tag_routing_prefix", ACCESS),
    ("litellm_params", r"itpm|otpm|default_api_key_.*_limit|max_file_size_mb", CAPS),
    ("litellm_params", r"mock_.*", TEST),
    ("litellm_params", r"tag_regex|configurable_clientside_auth_params", ACCESS),
    ("model_info", r"team_.*|access_.*|blocked|member_.*|allowed_.*", ACCESS),
    ("model_info", r"[io]?[tr]pm|max_parallel_requests", "caps stand under litellm_params"),
)

# Names that the source reads but that no file would set: internals, and lists of models.
_NOT_SETTINGS: Final = re.compile(r"_|[A-Z]|.*_models\Z")

Names = Iterable[str]


def main(arguments: list[str]) -> int:
    """Write the list; the number of keys of each block is printed."""
    if len(arguments) != 1 or not (root := Path(arguments[0])).joinpath("router.py").is_file():
        print(__doc__, file=sys.stderr)
        return 2
    found = read(root)
    OUT.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    for block, keys in found["blocks"].items():  # type: ignore[attr-defined]
        print(f"{block}: {len(keys['known'])} known, {len(keys['unsafe'])} unsafe")
    return 0


def read(root: Path) -> dict[str, object]:
    """Everything the JSON says, from LiteLLM's source under `root`."""
    source = _Package(root)
    return {
        "release": source.release(),
        "blocks": {block: _sorted(block, names) for block, names in _blocks(source).items()},
        "providers": sorted(source.enum("types/utils.py", "LlmProviders")),
        "callbacks": sorted(_callbacks(source)),
        "retry_policy": sorted(source.fields("types/router.py", "RetryPolicy")),
        "allowed_fails_policy": sorted(source.fields("types/router.py", "AllowedFailsPolicy")),
        "optional_pre_call_checks": sorted(
            source.literal("types/router.py", "OptionalPreCallChecks")
        ),
    }


def _sorted(block: str, names: Names) -> dict[str, object]:
    """A block's names: those whose loss is a matter of safety, each with why, and the others."""
    plain = {name for name in names if not _NOT_SETTINGS.match(name)}
    unsafe = {name: why for name in sorted(plain) for why in _losses(block, name)}
    return {"known": sorted(plain - set(unsafe)), "unsafe": unsafe}


def _losses(block: str, name: str) -> Iterator[str]:
    rows = (
        why for where, form, why in UNSAFE if where in ("*", block) and re.fullmatch(form, name)
    )
    if (why := next(rows, None)) is not None:
        yield why


def _blocks(source: _Package) -> Mapping[str, set[str]]:
    params = (
        "CredentialLiteLLMParams",
        "GenericLiteLLMParams",
        "LiteLLM_Params",
        "LiteLLMParamsTypedDict",
    )
    pricing = ("MirroredPricingParams", "CustomPricingLiteLLMParams")
    typed = set[str]().union(*(source.fields("types/router.py", name) for name in params))
    prices = set[str]().union(*(source.fields("types/utils.py", name) for name in pricing))
    proxy = "proxy/proxy_server.py"
    return {
        "file": source.gets("config", proxy)
        | {"model_list", "litellm_settings", "general_settings", "router_settings", "include"},
        "router_settings": source.arguments("router.py", "Router") - {"self"},
        "litellm_settings": source.globals("__init__.py")
        | source.gets("litellm_settings")
        | source.compared(proxy, "load_config")
        | {"set_verbose"},
        "general_settings": source.fields("proxy/_types.py", "ConfigGeneralSettings")
        | source.gets("general_settings"),
        "litellm_params": typed
        | prices
        | source.gets("litellm_params")
        | {"base_url", "extra_headers", "headers", "max_retries", "num_retries", "organization"},
        "model_info": prices
        | source.fields("types/router.py", "ModelInfo")
        | source.fields("types/utils.py", "ProviderSpecificModelInfo")
        | source.fields("types/utils.py", "ModelInfoBase")
        | source.gets("model_info")
        | {"description", "supported_environments"},
        "entry": source.fields("types/router.py", "Deployment") | {"litellm_params", "model_info"},
    }


def _callbacks(source: _Package) -> set[str]:
    return source.literal("__init__.py", "_custom_logger_compatible_callbacks_literal") | {
        "sentry",
        "supabase",
        "helicone",
        "athina",
        "code_interpreter_interception",
        "websearch_interception",
        "promptlayer",
        "slack",
        "s3",
    }


class _Package:
    """LiteLLM's source, asked for names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._texts = {p: p.read_text("utf-8") for p in sorted(root.rglob("*.py"))}

    def release(self) -> str:
        [info] = self.root.parent.glob("litellm-*.dist-info")
        return info.name.removeprefix("litellm-").removesuffix(".dist-info")

    def tree(self, path: str) -> ast.Module:
        return ast.parse(self._texts[self.root / path])

    def body(self, path: str, name: str) -> list[ast.stmt]:
        for node in self.tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node.body
        raise LookupError(f"{path} has no class {name}: the release has moved on")

    def fields(self, path: str, name: str) -> set[str]:
        found = [n.target for n in self.body(path, name) if isinstance(n, ast.AnnAssign)]
        return {t.id for t in found if isinstance(t, ast.Name) and t.id != "model_config"}

    def enum(self, path: str, name: str) -> set[str]:
        found = [n.value for n in self.body(path, name) if isinstance(n, ast.Assign)]
        return {v.value for v in found if isinstance(v, ast.Constant) and isinstance(v.value, str)}

    def arguments(self, path: str, name: str) -> set[str]:
        for node in self.body(path, name):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
        raise LookupError(f"{name} has no __init__")

    def literal(self, path: str, name: str) -> set[str]:
        for node in self.tree(path).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and target.id == name:
                constants = (n for n in ast.walk(node.value) if isinstance(n, ast.Constant))
                return {n.value for n in constants if isinstance(n.value, str)}
        raise LookupError(f"{path} has no {name}")

    def globals(self, path: str) -> set[str]:
        """Module attributes that a setting may set: lower case, no leading underscore."""
        names: set[str] = set()
        for node in self.tree(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
        return {n for n in names if n.islower() and not n.startswith("_")}

    def gets(self, variable: str, *paths: str) -> set[str]:
        """Names read as `variable.get("name")` or `variable["name"]`."""
        form = re.compile(rf"\b{variable}(?:\.get\(|\[)\s*\"([A-Za-z0-9_]+)\"")
        texts = [self._texts[self.root / p] for p in paths] or list(self._texts.values())
        return {name for text in texts for name in form.findall(text)}

    def compared(self, path: str, function: str) -> set[str]:
        """Names that a function compares its `key` with."""
        names: set[str] = set()
        for node in ast.walk(self.tree(path)):
            if isinstance(node, ast.AsyncFunctionDef) and node.name == function:
                text = ast.unparse(node)
                names |= set(re.findall(r"\bkey == '([a-z0-9_]+)'", text))
        return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
