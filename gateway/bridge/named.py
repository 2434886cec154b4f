"""What of a client's body reaches the library: named API parameters and declared engine extras.

The library takes its own controls (where to call, as whom, how often, in whose stead) as arguments
beside the API's parameters. So nothing passes by default: a name that is in no table here is the
client's mistake (400), or is dropped where the file says `drop_params`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.config.config import Dialect
from gateway.config.params import DEFAULTS
from gateway.errors import BadRequest


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CHAT: Final = _names(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens"
    " max_tokens messages modalities n parallel_tool_calls prediction presence_penalty"
    " prompt_cache_key reasoning_effort response_format safety_identifier seed service_tier stop"
    " store stream stream_options temperature thinking tool_choice tools top_logprobs top_p user"
    " verbosity web_search_options"
)
_COMPLETIONS: Final = _names(
    "best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty prompt seed"
    " stop stream stream_options suffix temperature top_p user"
)
_MESSAGES: Final = _names(
    "cache_control container context_management max_tokens mcp_servers messages metadata"
    " output_config output_format service_tier stop_sequences stream system temperature thinking"
    " tool_choice tools top_k top_p"
)
_RESPONSES: Final = _names(
    "background include input instructions max_output_tokens max_tool_calls metadata"
    " parallel_tool_calls previous_response_id prompt prompt_cache_key reasoning"
    " safety_identifier service_tier store stream stream_options temperature text tool_choice"
    " tools top_logprobs top_p truncation user"
)

API: Final[Mapping[Dialect, frozenset[str]]] = {
    "chat": _CHAT,
    "completions": _COMPLETIONS,
    "embeddings": _names("dimensions encoding_format input user"),
    "rerank": _names(
        "documents max_chunks_per_doc max_tokens_per_doc query rank_fields return_documents top_n"
    ),
    "messages": _MESSAGES,
    "count_tokens": _MESSAGES,
    "responses": _RESPONSES,
}
# Read by the gateway on its way in: of no meaning to a provider, and never an error.
_READ_HERE: Final = frozenset({"model", "metadata"})


def split(
    dialect: Dialect, fields: Mapping[str, Any], *, fixed: Iterable[str], drop: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The API's parameters, and the engine's extras. Raises BadRequest for what is neither."""
    known, also = API[dialect], frozenset(fixed)
    named: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    strange: list[str] = []
    for name, value in fields.items():
        if name in known:
            named[name] = value
        elif name in also or (name in DEFAULTS and name not in _READ_HERE):
            extras[name] = value
        elif name not in _READ_HERE:
            strange.append(name)
    if strange and not drop:
        raise BadRequest(
            f"'{strange[0][:64]}' is no parameter of this API, and no engine field that the "
            "gateway knows: leave it out (or set drop_params in the gateway's file)",
            code="unsupported_parameter",
        )
    return named, extras
