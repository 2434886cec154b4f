"""Which deployments are relayed: tables over LiteLLM's provider prefixes and engine names.

A prefix in OPENAI_WIRE means "OpenAI's wire format at `api_base`": bytes can pass through. Every
other provider that LiteLLM knows is bridged. Both tables are closed; a row is added with a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.config.config import Dialect, Mode

_CHAT: Final[frozenset[Dialect]] = frozenset({"chat", "completions"})
_CHAT_ONLY: Final[frozenset[Dialect]] = frozenset({"chat"})
_COMPLETIONS: Final[frozenset[Dialect]] = frozenset({"completions"})
_EMBEDDINGS: Final[frozenset[Dialect]] = frozenset({"embeddings"})
_RERANK: Final[frozenset[Dialect]] = frozenset({"rerank"})
_RESPONSES: Final[frozenset[Dialect]] = frozenset({"responses"})
_MESSAGES: Final[frozenset[Dialect]] = frozenset({"messages", "count_tokens"})
_NONE: Final[frozenset[Dialect]] = frozenset()

# The prefix's own server needs an address: without one LiteLLM would call OpenAI's public host.
OPENAI_WIRE: Final = frozenset(
    {
        "hosted_vllm",
        "openai",
        "custom_openai",
        "openai_like",
        "text-completion-openai",
        "llamafile",
        "lm_studio",
        "litellm_proxy",
        "docker_model_runner",
        "lemonade",
        "xinference",
        "infinity",
    }
)

# Without an `api_base` these mean OpenAI itself, through the bridge.
OPENAI_ITSELF: Final = frozenset({"openai", "text-completion-openai"})

# Bridged providers without an address of their own.
NEEDS_ADDRESS: Final = frozenset(
    {
        "azure",
        "azure_ai",
        "azure_text",
        "databricks",
        "ollama",
        "ollama_chat",
        "oobabooga",
        "petals",
        "triton",
        "vllm",
    }
)

WITHOUT_ENGINE: Final[Mapping[Mode, frozenset[Dialect]]] = MappingProxyType(
    {"chat": _CHAT, "completion": _COMPLETIONS, "embedding": _EMBEDDINGS, "rerank": _RERANK}
)

_ALL: Final = _CHAT | _RESPONSES | _MESSAGES

# What an engine's server speaks, by what it was started for. vLLM 0.32, SGLang 0.5.23 and
# llama.cpp b11549 were seen to serve Responses, Messages and count_tokens themselves.
_FULL: Final[Mapping[Mode, frozenset[Dialect]]] = MappingProxyType(
    {"chat": _ALL, "completion": _ALL, "embedding": _EMBEDDINGS, "rerank": _RERANK}
)
_PLAIN: Final[Mapping[Mode, frozenset[Dialect]]] = MappingProxyType(
    {"chat": _CHAT, "completion": _CHAT, "embedding": _EMBEDDINGS, "rerank": _NONE}
)

ENGINES: Final[Mapping[str, Mapping[Mode, frozenset[Dialect]]]] = MappingProxyType(
    {
        "vllm": _FULL,
        "sglang": _FULL,
        "llama.cpp": _FULL,
        "ollama": _PLAIN,
        "lm-studio": _PLAIN,
        "tabbyapi": _PLAIN,
        "mlx": _PLAIN,
        "tgi": MappingProxyType({**_PLAIN, "chat": _CHAT_ONLY}),
        # Embedding and rerank servers: no text is generated there.
        "tei": MappingProxyType({**_PLAIN, "chat": _NONE, "completion": _NONE}),
        "infinity": MappingProxyType(
            {"chat": _NONE, "completion": _NONE, "embedding": _EMBEDDINGS, "rerank": _RERANK}
        ),
    }
)

SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"llamacpp": "llama.cpp", "llama-cpp": "llama.cpp", "lmstudio": "lm-studio"}
)

# What LiteLLM could translate into, by mode.
BRIDGES: Final[Mapping[Mode, frozenset[Dialect]]] = MappingProxyType(
    {
        "chat": _CHAT | _RESPONSES | _MESSAGES,
        "completion": _COMPLETIONS,
        "embedding": _EMBEDDINGS,
        "rerank": _RERANK,
    }
)
