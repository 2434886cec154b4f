"""What a checked file means: frozen values, with every default and variable filled in.

`load.py` makes a Config from a file; everything that routes, relays or reports reads this and
never the YAML. Secrets are left out of every repr.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from common.problems import Place

Dialect = Literal[
    "chat", "completions", "embeddings", "rerank", "responses", "messages", "count_tokens"
]
TierName = Literal["interactive", "auxiliary", "background", "burst"]
Mode = Literal["chat", "completion", "embedding", "rerank"]
OnSaturation = Literal["reject", "fallback"]
RescueWay = Literal["continue", "replay"]
Variant = Literal["think", "fast"]
OnSwap = Literal["hold", "refuse"]

ACTIVE = "active"  # for a recipe: whatever its slot has loaded


@dataclass(frozen=True, slots=True, order=True)
class Upstream:
    """The HTTP server behind a deployment: host and port, normalised; or a recipe on a slot.

    Port 0 stands for a provider's own address, which only the bridge knows. On a slot the address
    says nothing: two recipes on one port are two upstreams, and two names on one recipe are one.
    """

    host: str
    port: int
    slot: str = ""
    recipe: str = ""

    @classmethod
    def on_slot(cls, slot: str, recipe: str) -> Upstream:
        """A recipe (or `active`) on a slot."""
        return cls("", 0, slot, recipe)

    def __str__(self) -> str:
        if self.slot:
            return f"{self.slot}/{self.recipe}"
        if self.port == 0:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One model served at one upstream URL: one `model_list` entry. Times in seconds."""

    id: str
    group: str
    place: Place
    provider: str
    served_name: str
    mode: Mode
    upstream: Upstream
    api_base: str | None  # without a trailing slash; None on a slot, where a lease says it
    api_key: str | None = field(repr=False, default=None)
    key_variable: str | None = None  # the variable that holds it, where one does
    engine: str | None = None
    lane: Literal["ingest", "query"] | None = None
    relays: frozenset[Dialect] = frozenset()  # spoken by the engine itself: bytes pass through
    bridges: frozenset[Dialect] = frozenset()  # possible only through the LiteLLM library
    weight: float | None = None
    order: int = 1
    rpm: int | None = None
    tpm: int | None = None
    max_parallel_requests: int | None = None
    timeout_s: float | None = None
    stream_timeout_s: float | None = None  # to the first content; None: timeout_s holds
    stream_idle_timeout_s: float = 120.0
    cooldown_s: float = 5.0
    allowed_fails: int = 3
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    drop_params: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)  # the client's value wins
    fixed: Mapping[str, Any] = field(default_factory=dict)  # extra_body: wins over the client
    accepts_prefix: bool = False
    slot: str | None = None
    recipe: str | None = None  # on a slot: its id, or ACTIVE
    variant: Variant | None = None  # of the active recipe
    swap: bool | None = None  # the file's word; None: by tier, see slot_rules.may_swap
    roi_profile: str | None = None  # whose price its tokens are held against
    litellm_params: Mapping[str, Any] = field(repr=False, default_factory=dict)  # for the bridge

    def first_s(self, *, stream: bool) -> float | None:
        """The limit to a whole answer or, streamed, to the first content."""
        streamed = stream and self.stream_timeout_s is not None
        return self.stream_timeout_s if streamed else self.timeout_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """How requests wait when every deployment of a group of this tier is at its cap."""

    max_wait_s: float
    max_waiting: int
    on_saturation: OnSaturation = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot's control plane, and what becomes of requests that meet a swap. Times in seconds."""

    name: str
    url: str  # without a trailing slash
    key: str | None = field(repr=False, default=None)
    on_swap: OnSwap = "hold"
    max_hold_s: float = 300.0
    burst_bridges_swap: bool = False  # fallbacks serve while it swaps


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Another name for a model group; a hidden one is served but not listed."""

    name: str
    group: str
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A task and the model group that serves it."""

    task: str
    group: str
    fallbacks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKey:
    """A client's key and what it opens: its tiers, and the names in `models` besides."""

    name: str
    key: str = field(repr=False)
    tiers: frozenset[TierName] = frozenset()
    models: frozenset[str] = frozenset()
    admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Where activity records go, and what bounds all the log files together."""

    path: str = "run/activity.jsonl"
    max_bytes: int = 52_428_800
    max_age_days: float = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFiles:
    """What the ledger reads: recipes and cloud identities from git, the rest of this machine."""

    recipes: str = "serving/recipes"
    roi_profiles: str = "serving/recipes/roi-profiles.yaml"
    prices: str = "run/prices.json"
    tags: str = "run/roi-tags.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The state of the file: content hash, and git's commit where the file is in a repository."""

    sha256: str  # hex, of the file's bytes
    commit: str | None = None  # short hash
    dirty: bool = False

    def __str__(self) -> str:
        head = self.sha256[:12]
        if self.commit is None:
            return head
        return f"{head}@{self.commit}{'-dirty' if self.dirty else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One revision of the file, whole and checked."""

    path: str
    revision: Revision
    deployments: tuple[Deployment, ...]
    tiers: Mapping[str, TierName]  # every model group -> its tier
    tier_rules: Mapping[TierName, TierRule]
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    pins: Mapping[str, Pin] = field(default_factory=dict)
    fallbacks: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # group or alias -> groups
    context_window_fallbacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_fallbacks: tuple[str, ...] = ()
    max_fallbacks: int | None = None  # hops; None: no limit, 0: no fallback at all
    num_retries: int = 2  # further attempts within a group
    master_key: str | None = field(repr=False, default=None)
    client_keys: tuple[ClientKey, ...] = ()
    callbacks: tuple[str, ...] = ()
    callback_content: bool = False
    host: str = "127.0.0.1"
    port: int = 9000
    max_body_bytes: int = 64 * 1024 * 1024
    hold_s: float = 2.0
    heartbeat_s: float = 0.0
    client_write_timeout_s: float = 60.0
    drain_s: float = 30.0
    overflow_max_parallel: int = 2
    affinity: Mapping[str, str] = field(default_factory=dict)  # group -> header name, or "key"
    rescue: Mapping[str, tuple[RescueWay, ...]] = field(default_factory=dict)
    slots: Mapping[str, Slot] = field(default_factory=dict)
    activity: Activity = field(default_factory=Activity)
    ledger: LedgerFiles = field(default_factory=LedgerFiles)

    def groups(self) -> dict[str, tuple[Deployment, ...]]:
        """Model groups in the order of the file, each with its deployments."""
        groups: dict[str, tuple[Deployment, ...]] = {}
        for deployment in self.deployments:
            groups[deployment.group] = (*groups.get(deployment.group, ()), deployment)
        return groups
