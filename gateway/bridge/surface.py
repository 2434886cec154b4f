"""What we use of litellm, all of it: the only file that imports it for serving.

Held by tests/bridge/test_surface.py, which says what each name must take and give: a release
that changes one fails there, not in front of a client. Imported in the bridge's process alone,
whose environment (child.py) has the switches that must be set before.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from typing import Any

import httpx
import litellm
from litellm.llms.anthropic.chat.handler import ModelResponseIterator as AnthropicChunks
from litellm.llms.anthropic.pass_through.adapters.handler import ANTHROPIC_ADAPTER
from litellm.llms.anthropic.pass_through.adapters.streaming_iterator import AnthropicStreamWrapper
from litellm.responses.litellm_completion_transformation.streaming_iterator import (
    LiteLLMCompletionStreamingIterator,
)
from litellm.responses.litellm_completion_transformation.transformation import (
    LiteLLMCompletionResponsesConfig as Responses,
)
from litellm.types.utils import LlmProviders, ModelResponse, ModelResponseStream
from litellm.utils import ProviderConfigManager

RELEASE: str = version("litellm")
# One brain routes: the library neither retries nor caches, and tells nobody what it did.
ONCE: Mapping[str, Any] = {"num_retries": 0, "max_retries": 0, "no-log": True, "caching": False}


def settle() -> None:
    """Turn off all that the library does besides translating. Once, at the start."""
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    litellm.cache = None
    litellm.num_retries = 0
    litellm.disable_streaming_logging = True
    litellm.turn_off_message_logging = True
    litellm.disable_hf_tokenizer_download = True
    litellm.disable_aiohttp_trust_env = True
    for name in ("callbacks", "success_callback", "failure_callback", "input_callback"):
        setattr(litellm, name, [])
    for name in ("_async_success_callback", "_async_failure_callback"):
        setattr(litellm, name, [])
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    _stay_where_sent()


def _stay_where_sent() -> None:
    """No redirect is followed and no proxy variable read, whichever client a provider brings."""
    for client in (httpx.AsyncClient, httpx.Client):
        send: Any = client._send_handling_redirects

        def stay(
            self: Any, request: Any, follow_redirects: bool, history: Any, _send: Any = send
        ) -> Any:
            return _send(self, request, follow_redirects=False, history=history)

        client._send_handling_redirects = stay  # type: ignore[method-assign]


def knows(provider: str) -> bool:
    """True if the library has such a provider."""
    return provider in {each.value for each in LlmProviders}


def chat_config(provider: str, model: str) -> Any:
    """The provider's translation of chat, or None."""
    if not knows(provider):
        return None
    return ProviderConfigManager.get_provider_chat_config(model, LlmProviders(provider))


def speaks_responses(provider: str, model: str) -> bool:
    """True if the library passes the Responses dialect on to this provider."""
    if not knows(provider):
        return False
    find = ProviderConfigManager.get_provider_responses_api_config
    return find(model=model, provider=LlmProviders(provider)) is not None


def where(
    provider: str, model: str, api_base: str | None, api_key: str | None
) -> tuple[str, str | None, str | None]:
    """The model as the provider calls it, the address and the key: its own where none is given."""
    name, base = f"{provider}/{model}", base_of(provider, api_base)
    found = litellm.get_llm_provider(model=name, api_base=base, api_key=api_key)
    base = base or found[3]
    if provider == "anthropic":
        base = f"{base or 'https://api.anthropic.com'}/v1/messages"
    return found[0], base, api_key or found[2]


def base_of(provider: str, api_base: str | None) -> str | None:
    """An address as the library wants it: it adds Anthropic's version itself."""
    if provider == "anthropic" and api_base is not None:
        return api_base.removesuffix("/messages").removesuffix("/v1")
    return api_base


# The plain entry points: whole calls, with the library's own HTTP clients.
acompletion: Any = litellm.acompletion
atext_completion: Any = litellm.atext_completion
aembedding: Any = litellm.aembedding
arerank: Any = litellm.arerank
aresponses: Any = litellm.aresponses
count_locally: Any = litellm.token_counter
new_answer: Any = ModelResponse
new_chunk: Any = ModelResponseStream


def anthropic_chunks() -> Any:
    """Anthropic's events to OpenAI's chunks: `.chunk_parser(event)`, one object a stream."""
    return AnthropicChunks(streaming_response=None, sync_stream=False)


def chat_of_messages(body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """An Anthropic request as a chat request, and shortened tool names with their originals."""
    made, names = ANTHROPIC_ADAPTER.translate_completion_input_params_with_tool_mapping(dict(body))
    return dict(made or {}), names


def message_of_chat(answer: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A whole chat answer as an Anthropic message."""
    made = ANTHROPIC_ADAPTER.translate_completion_output_params(ModelResponse(**answer), names)
    return plain(made)


def events_of_chat(
    chunks: AsyncIterator[Any], model: str, names: dict[str, str]
) -> AsyncIterator[dict[str, Any]]:
    """A chat stream as Anthropic's events."""
    made: Any = AnthropicStreamWrapper(_stream(chunks), model=model, tool_name_mapping=names)
    return made  # type: ignore[no-any-return]


def chat_of_responses(body: Mapping[str, Any], provider: str, *, stream: bool) -> dict[str, Any]:
    """A Responses request as a chat request."""
    more = {k: v for k, v in body.items() if k not in ("input", "model", "stream")}
    return dict(
        Responses.transform_responses_api_request_to_chat_completion_request(
            model=str(body["model"]),
            input=body.get("input") or "",
            responses_api_request=more,  # type: ignore[arg-type] # a TypedDict of these names
            custom_llm_provider=provider,
            stream=stream,
        )
    )


def response_of_chat(answer: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """A whole chat answer as a response."""
    more = {k: v for k, v in body.items() if k not in ("input", "model", "stream")}
    translate = Responses.transform_chat_completion_response_to_responses_api_response
    made = translate(
        request_input=body.get("input") or "",
        responses_api_request=more,  # type: ignore[arg-type]
        chat_completion_response=ModelResponse(**answer),
    )
    return plain(made)


def response_events_of_chat(
    chunks: AsyncIterator[Any], body: Mapping[str, Any], provider: str
) -> AsyncIterator[Any]:
    """A chat stream as the events of a response."""
    more = {k: v for k, v in body.items() if k not in ("input", "model", "stream")}
    wrapper: Any = _Stream(chunks)
    made: Any = LiteLLMCompletionStreamingIterator(
        model=str(body["model"]),
        litellm_custom_stream_wrapper=wrapper,
        request_input=body.get("input") or "",
        responses_api_request=more,  # type: ignore[arg-type]
        custom_llm_provider=provider,
    )
    return made  # type: ignore[no-any-return]


class _Stream:
    """What the Responses translation wants of a stream: to be read, and a logger or none."""

    def __init__(self, chunks: AsyncIterator[Any]) -> None:
        self._chunks = chunks
        self.logging_obj = None  # nobody is told, and nothing is priced

    async def __anext__(self) -> Any:
        return await self._chunks.__anext__()

    def __aiter__(self) -> _Stream:
        return self


def plain(value: Any) -> dict[str, Any]:
    """One of the library's objects as JSON's."""
    if hasattr(value, "model_dump"):
        return dict(value.model_dump(mode="json", exclude_none=True, exclude_unset=True))
    return dict(value)


def answer_of_anthropic(model: str, body: bytes, named: Mapping[str, Any]) -> dict[str, Any]:
    """Anthropic's whole answer as OpenAI's object."""
    made = litellm.AnthropicConfig().transform_response(
        model=model,
        raw_response=httpx.Response(200, content=body),
        model_response=ModelResponse(),
        logging_obj=_silent(),
        request_data={},
        messages=list(named.get("messages") or []),
        optional_params={},
        litellm_params={},
        encoding=None,
    )
    return plain(made)


def _stream(chunks: AsyncIterator[Any]) -> Any:
    return chunks  # its type asks for a way to read it without a loop, which nobody uses


def _silent() -> Any:
    return _Silent()


class _Silent:
    """What a translation wants of a logging object: anything may be called, nothing comes of it."""

    model_call_details: Mapping[str, Any] = {}
    optional_params: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None
