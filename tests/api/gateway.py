"""A gateway for the API to show: a small file's worth of config, and settings for its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from common.problems import Place, Problem
from gateway.api.app import build
from gateway.api.view import Phase, View
from gateway.config.config import (
    Alias,
    ClientKey,
    Config,
    Deployment,
    Pin,
    Revision,
    TierName,
    TierRule,
    Upstream,
)
from gateway.keys import Client, KeyRing
from gateway.records.metrics import Metrics
from gateway.records.state import DeploymentState, NowState
from gateway.records.usage import Usage
from gateway.routing import table as table_of
from gateway.routing.table import RouteTable
from tests import markers

MASTER = markers.key("master")
CHAT_KEY = markers.key("open-webui")
JOBS_KEY = markers.key("agent-jobs")
ADMIN_KEY = markers.key("operator")
ENGINE_KEY = markers.key("engine")
LOADED_AT = 1_790_000_000.0
HOSTS = ("gpu-1", "gpu-2", "8000", "8001")
RULE = TierRule(max_wait_s=10.0, max_waiting=64)


def deployment(group: str, host: str, port: int, **settings: Any) -> Deployment:
    """A deployment whose key and headers carry the mark."""
    return Deployment(
        id=f"{group}@{host}:{port}/{settings.pop('served_name', 'model')}",
        group=group,
        place=Place("config.yaml", 1, 1),
        provider="hosted_vllm",
        served_name="model",
        mode=settings.pop("mode", "chat"),
        upstream=Upstream(host, port),
        api_base=f"http://{host}:{port}/v1",
        api_key=ENGINE_KEY,
        relays=frozenset({"chat"}),
        fixed={"extra_headers": {"X-Engine-Key": markers.key("header")}, "max_tokens": 100},
        litellm_params={"api_key": ENGINE_KEY, "aws_secret_access_key": markers.key("aws")},
        **settings,
    )


def config() -> Config:
    """All four tiers, an alias and a hidden one, a pin, a name with a slash, an embedding group."""
    tiers: dict[str, TierName] = {
        "primary-chat": "interactive",
        "lab/aux-35b": "auxiliary",
        "background-llm": "background",
        "burst-nemotron": "burst",
        "emb-query": "auxiliary",
    }
    return Config(
        path="config.yaml",
        revision=Revision(sha256="ab" * 32, commit="1234567", dirty=True),
        deployments=(
            deployment("primary-chat", "gpu-1", 8000, max_input_tokens=131_072),
            deployment("lab/aux-35b", "gpu-2", 8001, max_input_tokens=32_768),
            deployment("lab/aux-35b", "gpu-2", 8001, served_name="wide", max_input_tokens=262_144),
            deployment("background-llm", "gpu-2", 8001, served_name="bg"),
            deployment("burst-nemotron", "gpu-1", 8001, max_input_tokens=256_000),
            deployment("emb-query", "gpu-1", 8017, mode="embedding"),
        ),
        tiers=tiers,
        tier_rules=dict.fromkeys(("interactive", "auxiliary", "background", "burst"), RULE),
        aliases={
            "fast-chat": Alias(name="fast-chat", group="lab/aux-35b"),
            "old-name": Alias(name="old-name", group="primary-chat", hidden=True),
        },
        pins={"title": Pin(task="title", group="lab/aux-35b")},
        fallbacks={"primary-chat": ("burst-nemotron",)},
        master_key=MASTER,
        client_keys=(
            ClientKey(name="open-webui", key=CHAT_KEY, tiers=frozenset({"interactive"})),
            ClientKey(name="jobs", key=JOBS_KEY, tiers=frozenset(("background", "auxiliary"))),
            ClientKey(name="operator", key=ADMIN_KEY, admin=True),
        ),
    )


@dataclass
class FakeGateway:
    """Fulfils `View`; a test sets what it wants to see shown."""

    folder: Path
    config: Config = field(default_factory=config)
    phase: Phase = "ready"
    rejected: tuple[Problem, ...] = ()
    records_lost: int = 0
    state: NowState | None = None
    loaded_at: float = LOADED_AT

    def __post_init__(self) -> None:
        self.table: RouteTable = table_of.build(self.config)
        self.keys = KeyRing(self.config, self.table)
        self.metrics = Metrics(now=self.now, lost=lambda: self.records_lost)
        self.usage = Usage(self.folder / "activity.jsonl")

    def now(self) -> NowState:
        if self.state is not None:
            return self.state
        members = tuple(
            DeploymentState(id=d.id, group=d.group, tier=self.config.tiers[d.group])
            for d in self.config.deployments
        )
        return NowState(deployments=members)

    def identify(self, headers: Iterable[tuple[bytes, bytes]]) -> Client:
        return self.keys.identify(headers)


@dataclass(frozen=True)
class Reply:
    """An answer, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def ask(
    view: View, path: str, *, key: str | None = None, method: str = "GET", **headers: str
) -> Reply:
    """One request, its path sent exactly as given; `?` starts the query."""
    sent: list[dict[str, Any]] = []
    plain, _, query = path.partition("?")
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    if key is not None:
        given["authorization"] = f"Bearer {key}"

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": plain,
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(n.encode(), v.encode()) for n, v in given.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 9000),
    }
    await build(view)(scope, receive, send)
    head, *rest = sent
    return Reply(
        head["status"],
        {n.decode(): v.decode() for n, v in head["headers"]},
        b"".join(m.get("body", b"") for m in rest),
    )
