"""The grammar of a recipe file: which keys each block takes, and of what type.

No value is coerced, and a key that is no field is a problem. A recipe names one engine; the keys
that belong to another engine are a problem too (rules.py). docs/recipes.md explains each key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

EngineName = Literal[
    "eugr",
    "vllm",
    "sglang",
    "llamacpp",
    "ds4",
    "sparkinfer",
    "flashnext",
    "tensorfold",
    "embedded",
]
Tier = Literal["heavy", "fast"]
Lifecycle = Literal["draft", "testing", "works", "production", "failed"]
OnLowMemory = Literal["report", "stop"]
Variant = Literal["think", "fast"]


def as_tuple(value: Any) -> Any:
    """A list of the file as a tuple, which nobody can change."""
    return tuple(value) if isinstance(value, list) else value


Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(as_tuple, json_schema_input_type=list[str])]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Gib = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Env = dict[Text, str]


class Block(BaseModel):
    """A closed, frozen block."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, protected_namespaces=(), defer_build=True
    )


class Preset(Block):
    """A named choice of context: what `--preset` takes."""

    label: Text | None = None
    ctx: Count
    kv: Text | None = None
    max_num_seqs: Count | None = None
    extended: bool = False  # longer than the model was trained for, and meant so


class Context(Block):
    """How much the model reads at once, in tokens."""

    default: Count
    native: Count | None = None  # what the model was trained for
    kv_default: Text | None = None
    presets: dict[Text, Preset] = {}


class Generation(Block):
    """How much it writes, in tokens."""

    default_max_tokens: Count | None = None
    max_tokens: Count | None = None


class Speculative(Block):
    """Guessing ahead: MTP, DFlash, DSpark, Eagle. On the recipe, in no other place."""

    method: Text
    variant: Text | None = None
    sidecar_inventory: Text | None = None
    sidecar_path: Text | None = None
    num_speculative_tokens: Count | None = None
    target_weight_format: Text | None = None
    moe_backend: Text | None = None


class EugrOptions(Block):
    """How the recipe runner is called; what it runs stands in the service file."""

    solo: bool = True
    no_ray: bool = False
    nodes: Texts = ()
    master_port: Port | None = None
    container: Text | None = None
    args: Texts = ()  # after `--`: the engine's own


class Vllm(Block):
    """vLLM in a plain container."""

    image: Text
    model: Text
    args: Texts = ()
    container: Text | None = None
    cache: Text | None = None  # compiled code outlives the container here


class Sglang(Block):
    """SGLang in a container."""

    image: Text
    model: Text
    draft: Text | None = None
    mem_fraction: Share | None = None
    max_running: Count | None = None
    num_draft_tokens: Count | None = None
    language_only: bool = False  # without the vision tower
    args: Texts = ()
    container: Text | None = None
    cache: Text | None = None


class Flashnext(Block):
    """Qwen3.8-Flash-Next by its kit; the kit runs the container."""

    launcher: Text
    hf_home: Text | None = None
    image: Text | None = None
    container: Text | None = None
    host_reserve_gib: Gib | None = None
    kv_target_gib: Gib | None = None
    max_num_seqs: Count | None = None
    mtp_tokens: Annotated[int, Field(ge=0)] | None = None
    draft_vocab: Count | None = None
    yarn: bool = False


class Tensorfold(Block):
    """TensorFold by its kit; the kit runs the container, from an image of this machine."""

    launcher: Text | None = None  # else the host's variable TENSORFOLD_LAUNCHER
    container: Text | None = None
    hf_home: Text | None = None
    prepare: Literal["auto", "1", "0"] = "0"  # "0": no image is built, nothing is downloaded


class EmbeddedOptions(Block):
    """How much of the machine the project's own llama.cpp server takes."""

    threads: Count = 1
    parallel: Count = 2


class RecipeFile(Block):
    """One recipe file."""

    id: Text
    name: Text
    engine: EngineName
    lifecycle: Lifecycle
    served_name: Text
    context: Context
    aliases: Texts = ()
    catalog_id: Text | None = None
    inventory_path: Text | None = None
    tier: Tier = "heavy"
    host: Text = "127.0.0.1"
    port: Port | None = None
    deprecated: Text | None = None  # why, and what to take instead
    roi_profile: Text | None = None
    tags: Texts = ()
    notes: Text | None = None
    updated_at: Text | None = None
    promoted_at: Text | None = None
    generation: Generation = Generation.model_construct()
    speculative: Speculative | None = None
    variants: dict[Variant, dict[Text, Any]] = {}
    env: Env = {}
    env_from_host: Texts = ()  # names of variables of the slot's file, such as HF_TOKEN
    start_timeout_s: Seconds | None = None
    stop_grace_s: Seconds | None = None
    min_free_gib: Gib | None = None
    on_low_memory: OnLowMemory = "report"
    # Each engine's own.
    eugr_recipe: Text | None = None
    eugr: EugrOptions | None = None
    vllm: Vllm | None = None
    sglang: Sglang | None = None
    model: Text | None = None  # llamacpp, ds4, embedded
    llamacpp_args: Texts | None = None
    ds4_args: Texts | None = None
    pin: Text | None = None  # ds4, sparkinfer
    flashnext: Flashnext | None = None
    tensorfold: Tensorfold | None = None
    embedded: EmbeddedOptions | None = None
