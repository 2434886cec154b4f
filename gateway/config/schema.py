"""The grammar of the file: which keys each block takes, and of what type. No value is coerced.

Only keys with an effect here are fields. What else LiteLLM knows, and what may stand under
`litellm_params` for the engine, is data: `litellm_keys.json` and `params.py`. The editor's JSON
schema (config.schema.json) is made from these models; a description is its hint.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gateway.config.config import (
    Dialect,
    Mode,
    OnSaturation,
    OnSwap,
    RescueWay,
    TierName,
    Variant,
)

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Cap = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Strategy = Literal[
    "simple-shuffle",
    "least-busy",
    "latency-based-routing",
    "cost-based-routing",
    "usage-based-routing",
    "usage-based-routing-v2",
]
Targets = list[dict[Text, list[Text]]]


class Block(BaseModel):
    """A closed block: a key that is no field is a problem."""

    # Built at first use: `gateway.config.load` is imported by commands that read no file.
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, protected_namespaces=(), defer_build=True
    )


def _as_model(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _hint(text: str, default: Any = None) -> Any:
    return Field(default=default, description=text)


class LiteLLMParams(Block):
    """How to call one deployment."""

    model: Text = Field(description="provider/served-name, such as hosted_vllm/glm-5.3-flash")
    api_base: Text | None = _hint("The engine's URL with its path: http://host:8000/v1")
    api_key: Text | None = _hint("The engine's key: os.environ/NAME")
    custom_llm_provider: Text | None = _hint("The provider, where `model` has no prefix")
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = _hint(
        "Share of the group's requests; on every member or on none"
    )
    order: Count | None = _hint("Members with a lower order are tried first")
    rpm: Cap | None = _hint("Cap: attempts in any 60 s")
    tpm: Cap | None = _hint("Cap: tokens in any 60 s")
    max_parallel_requests: Cap | None = _hint("Cap: requests at one time")
    timeout: Seconds | None = _hint("Seconds to the answer or first content; 0: no limit")
    request_timeout: Seconds | None = _hint("Another name for timeout")
    stream_timeout: Seconds | None = _hint("Seconds to a stream's first content; 0: no limit")
    cooldown_time: Seconds | None = _hint("Seconds that this deployment rests")
    drop_params: bool | None = _hint("Bridged deployments: drop what the provider does not know")
    additional_drop_params: list[Text] | None = _hint("Body fields never sent to the engine")
    extra_body: dict[str, Any] | None = _hint("Body fields that win over the client's")


class ModelInfo(Block):
    """What is known about one deployment."""

    id: Text | None = _hint("Its id; else group@host:port/served-name")
    mode: Mode | None = _hint("What it serves")
    engine: Text | None = _hint("The program that runs it: it decides which APIs are relayed")
    apis: list[Dialect] | None = _hint("The APIs that the engine speaks itself")
    lane: Literal["ingest", "query"] | None = _hint("Embeddings: the ingest or the query lane")
    max_input_tokens: Cap | None = _hint("Context window, published in /v1/models")
    max_output_tokens: Cap | None = _hint("Longest answer, published in /v1/models")
    stream_idle_timeout_s: SomeSeconds | None = _hint("Seconds between content events")
    cooldown_time: Seconds | None = _hint("Seconds that this deployment rests")
    allowed_fails: Count | None = _hint("Failures a minute before it rests")
    accepts_prefix: bool | None = _hint("It carries on a partial assistant message")
    slot: Text | None = _hint("The slot that runs it: one of gateway_settings.slots")
    recipe: Text | None = _hint("On a slot: the recipe's id, or `active`: what is loaded")
    variant: Variant | None = _hint("Of the active recipe: think, or fast (without thinking)")
    swap: bool | None = _hint("May it load its recipe (default: interactive and auxiliary names)")
    roi_profile: Text | None = _hint("The ledger's cloud model, where no recipe names one")


class Entry(Block):
    """One deployment."""

    model_name: Text = Field(description="The model group: entries with one name share requests")
    litellm_params: LiteLLMParams
    model_info: ModelInfo = Field(default_factory=ModelInfo)


class AliasItem(Block):
    """An alias written long."""

    model: Text = Field(description="The model group that serves this name")
    hidden: bool = _hint("Served, but not listed in /v1/models", False)


class RouterSettings(Block):
    """How requests are routed, in LiteLLM's words."""

    num_retries: Count | None = _hint("Further attempts in a group (default 2)")
    allowed_fails: Count | None = _hint("Failures a minute before a deployment rests (default 3)")
    cooldown_time: Seconds | None = _hint("Seconds that a failed deployment rests (default 5)")
    timeout: Seconds | None = _hint("timeout of every deployment without its own; 0: no limit")
    stream_timeout: Seconds | None = _hint("stream_timeout of those without their own")
    default_max_parallel_requests: Cap | None = _hint("Parallel cap of those without their own")
    model_group_alias: dict[
        Text,
        Annotated[AliasItem, BeforeValidator(_as_model, json_schema_input_type=str | AliasItem)],
    ] = _hint("Other names for model groups: {alias: group}", {})
    fallbacks: Targets | None = _hint("After failure: a list of {group: [other, ...]}")
    context_window_fallbacks: Targets | None = _hint("The same, where a prompt is too long")
    default_fallbacks: list[Text] | None = _hint("Fallbacks of every name without its own")
    max_fallbacks: Count | None = _hint("Longest way through fallbacks; 0: none (no limit)")
    routing_strategy: Strategy | None = _hint("By weight (simple-shuffle), whatever stands here")
    optional_pre_call_checks: list[Text] | None = _hint("Caps are always enforced here")
    retry_policy: dict[str, Count] | None = _hint("Known to LiteLLM; no effect here")
    allowed_fails_policy: dict[str, Count] | None = _hint("Known to LiteLLM; no effect here")


class LiteLLMSettings(Block):
    """Settings of the LiteLLM library; those with an effect here."""

    drop_params: bool | None = _hint("Bridged deployments: drop what the provider does not know")
    callbacks: Annotated[
        list[Text], BeforeValidator(_as_list, json_schema_input_type=str | list[str])
    ] = _hint("module.instance, next to the file or importable", [])
    num_retries: Count | None = _hint("As in router_settings")
    request_timeout: Seconds | None = _hint("As router_settings.timeout; 0: no limit")
    allowed_fails: Count | None = _hint("As in router_settings")
    fallbacks: Targets | None = _hint("As in router_settings; in one of the two only")
    context_window_fallbacks: Targets | None = _hint("As in router_settings")
    default_fallbacks: list[Text] | None = _hint("As in router_settings")


class GeneralSettings(Block):
    """Settings of the LiteLLM proxy; those with an effect here."""

    master_key: Text | None = _hint("The operator's key: os.environ/NAME")


class Queue(Block):
    """Waiting for a permit, first come first served."""

    max_wait_s: Seconds | None = _hint("Seconds that a request may wait")
    max_waiting: Count | None = _hint("Requests that may wait in one group")


class Tier(Block):
    """The groups of a tier, and what they do at their caps."""

    models: list[Text] = _hint("Model groups", [])
    queue: Queue = Field(default_factory=Queue)
    on_saturation: OnSaturation | None = _hint("After the wait: reject (default) or fallback")


class PinItem(Block):
    """A pin written long."""

    model: Text = Field(description="The model group that serves this task")
    fallbacks: bool = _hint("false: this group or nothing", True)


class Client(Block):
    """One client's key and what it opens."""

    name: Text = Field(description="Shown in records")
    key: Text = Field(description="os.environ/NAME")
    tiers: list[TierName] = _hint("Every name of these tiers", [])
    models: list[Text] = _hint("Further groups, aliases and tasks, by name", [])
    admin: bool = _hint("May read /api/* and /metrics", False)


class ActivityLog(Block):
    """The activity log; the bounds hold for all its files together."""

    path: Text = _hint("One line of JSON for each request", "run/activity.jsonl")
    max_bytes: Cap = _hint("Bytes kept", 52_428_800)
    max_age_days: SomeSeconds = _hint("Days kept", 7)


class Ledger(Block):
    """The files of the ledger: what the cloud would have charged."""

    recipes: Text = _hint("Folder of recipe files", "serving/recipes")
    roi_profiles: Text = _hint("Cloud models, in git", "serving/recipes/roi-profiles.yaml")
    prices: Text = _hint("Their prices, of this machine", "run/prices.json")
    tags: Text = _hint("Recipe, deployment or group -> cloud model", "run/roi-tags.json")


class SlotItem(Block):
    """A slot that holds one recipe at a time, and the control plane that runs it."""

    url: Text = Field(description="Its control plane, such as http://127.0.0.1:8767")
    key: Text | None = _hint("The control plane's key: os.environ/NAME")
    on_swap: OnSwap = _hint("Who meets a swap waits for it (hold), or gets 503 (refuse)", "hold")
    max_hold_s: Seconds = _hint("Longest wait for a swap", 300)
    burst_bridges_swap: bool = _hint("While it swaps, fallbacks serve", False)


class GatewaySettings(Block):
    """What LiteLLM has no word for. Stock LiteLLM ignores this block."""

    tiers: dict[TierName, Tier] | None = _hint("Which group is in which tier")
    task_pins: dict[
        Text, Annotated[PinItem, BeforeValidator(_as_model, json_schema_input_type=str | PinItem)]
    ] = _hint("Task -> model group; a task without a pin is refused", {})
    client_keys: list[Client] = _hint("Who may call, and what", [])
    listen: Text = _hint("host:port; --host and --port win", "127.0.0.1:9000")
    rescue: dict[Text, list[RescueWay]] = _hint("Carry on streams that break after content", {})
    affinity: dict[Text, Text] = _hint("Group -> header name or `key`: keep a caller's member", {})
    slots: dict[Text, SlotItem] = _hint("Slot -> its control plane", {})
    activity: ActivityLog = Field(default_factory=ActivityLog)
    ledger: Ledger = Field(default_factory=Ledger)
    overflow_max_parallel: Count = _hint("Background requests on one interactive upstream", 2)
    max_body_mb: SomeSeconds = _hint("Largest request body, in MiB", 64)
    hold_s: Seconds = _hint("Longest hold of events before the first content", 2)
    heartbeat_s: Seconds = _hint("Seconds between keep-alive comments; 0: off", 0)
    stream_idle_timeout_s: SomeSeconds = _hint("Seconds between content events", 120)
    client_write_timeout_s: SomeSeconds = _hint("A client that takes nothing is let go", 60)
    drain_s: Seconds = _hint("Seconds that SIGTERM waits for streams", 30)
    callback_content: bool = _hint("Other callbacks may see messages and answers", False)


class File(Block):
    """The whole file."""

    model_list: list[Entry] = Field(description="The deployments")
    router_settings: RouterSettings = Field(default_factory=RouterSettings)
    litellm_settings: LiteLLMSettings = Field(default_factory=LiteLLMSettings)
    general_settings: GeneralSettings = Field(default_factory=GeneralSettings)
    gateway_settings: GatewaySettings = Field(default_factory=GatewaySettings)
