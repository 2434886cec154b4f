"""Chat without the library's wrapper: its translation of a request, our own HTTP client.

The wrapper costs milliseconds a call and a chunk; the translation costs a tenth of that. Three
kinds of provider go this way, and all others go through the plain entry points (plain.py):

    an engine that speaks chat at its `api_base`   the chat request as it is: nobody translates it
    OpenAI's wire, at the provider's own address   map_openai_params, transform_request
    anthropic                                      the same, and the chunk parser on each event;
                                               its own dialect as it is

tests/bridge/test_ways.py sends the same requests both ways, and holds what reaches the provider
and the client to be the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from gateway.bridge import surface
from gateway.bridge.call import Call
from gateway.bridge.failures import Refused
from gateway.bridge.sse import datas
from gateway.errors import BadRequest
from gateway.http1.client import Client, Response, Target

# Providers whose chat is OpenAI's, byte for byte in the answer.
OPENAI_WIRE: Final = frozenset(
    {
        "cerebras",
        "custom_openai",
        "deepinfra",
        "hosted_vllm",
        "hyperbolic",
        "lambda_ai",
        "llamafile",
        "lm_studio",
        "nebius",
        "novita",
        "nscale",
        "nvidia_nim",
        "openai",
        "openrouter",
        "sambanova",
        "together_ai",
    }
)
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_MAX_ERROR_BYTES: Final = 1024 * 1024
_HEADERS: Final = {
    "content-type": "application/json",
    "accept-encoding": "identity",
    "user-agent": "signalbox",
}


def goes(call: Call) -> bool:
    """True if this call's chat goes the direct way."""
    return call.speaks_chat or call.provider in OPENAI_WIRE or call.provider == "anthropic"


def is_openai(call: Call) -> bool:
    """True if the answer is OpenAI's wire already: a chat client gets the provider's own bytes."""
    return call.speaks_chat or call.provider in OPENAI_WIRE


class Direct:
    """Chat calls over the gateway's own HTTP client, one for the process."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._supported: dict[tuple[str, str], frozenset[str]] = {}

    async def send(self, call: Call, named: dict[str, Any], extras: Mapping[str, Any]) -> Response:
        """The provider's answer to a chat request. Raises Refused unless it is a success."""
        return await self._answer(call, *self._request(call, named, extras))

    async def message(self, call: Call, body: dict[str, Any]) -> Response:
        """Anthropic's answer to a request in its own dialect, or to count_tokens."""
        _, url, key = surface.where(call.provider, call.model, call.api_base, call.api_key)
        headers = {"anthropic-version": "2023-06-01"} | call.headers
        if key:
            headers["x-api-key"] = key
        suffix = "/count_tokens" if call.dialect == "count_tokens" else ""
        return await self._answer(call, f"{url}{suffix}", headers, {**body, "model": call.model})

    async def _answer(
        self, call: Call, url: str, headers: dict[str, str], body: dict[str, Any]
    ) -> Response:
        response = await self._post(url, call.headers | headers | _HEADERS, body)
        if not 200 <= response.status < 300:
            parts, size = [], 0
            while size < _MAX_ERROR_BYTES and (data := await response.read()):
                parts.append(data)
                size += len(data)
            response.abort()
            raise Refused(response.status, response.headers, b"".join(parts))
        return response

    def _request(
        self, call: Call, named: dict[str, Any], extras: Mapping[str, Any]
    ) -> tuple[str, dict[str, str], dict[str, Any]]:
        if call.speaks_chat:
            key = {"authorization": f"Bearer {call.api_key}"} if call.api_key else {}
            url = f"{call.api_base}/chat/completions"
            return url, key, {**named, "model": call.model, **extras}
        config = surface.chat_config(call.provider, call.model)
        model, base, api_key = surface.where(call.provider, call.model, call.api_base, call.api_key)
        asked = {k: v for k, v in named.items() if k not in ("messages", "stream")}
        options: dict[str, Any] = config.map_openai_params(
            self._allowed(call, config, asked), {}, model, call.drop_params
        )
        params = {"api_base": base, "api_key": api_key, **call.params}
        messages = named.get("messages") or []
        headers: dict[str, str] = config.validate_environment(
            headers={},
            model=model,
            messages=messages,
            optional_params=options,
            litellm_params=params,
            api_key=api_key,
            api_base=base,
        )
        url = config.get_complete_url(base, api_key, model, options, params, bool(call.stream))
        body = config.transform_request(model, messages, options, params, headers)
        if named.get("stream"):
            body["stream"] = True
        elif "stream" in named and call.provider != "anthropic":
            body["stream"] = False
        return url, {k.lower(): str(v) for k, v in headers.items()}, {**body, **extras}

    def _allowed(self, call: Call, config: Any, asked: dict[str, Any]) -> dict[str, Any]:
        """What the provider takes. Raises BadRequest for others, unless the file drops them."""
        supported = self._supported.get((call.provider, call.model))
        if supported is None:
            known = config.get_supported_openai_params(model=call.model)
            supported = frozenset(known) | {"stream_options"}
            self._supported[(call.provider, call.model)] = supported
        strange = [k for k, v in asked.items() if k not in supported and v is not None]
        if strange and not call.drop_params:
            raise BadRequest(
                f"{call.provider} does not take '{strange[0]}' for this model: leave it out (or "
                "set drop_params in the gateway's file)",
                code="unsupported_parameter",
            )
        return {k: v for k, v in asked.items() if k in supported and v is not None}

    async def _post(self, url: str, headers: Mapping[str, str], body: Any) -> Response:
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        target = Target(parts.hostname or "", parts.port or (443 if tls else 80), tls)
        data = msgspec.json.encode(body)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {path} HTTP/1.1", f"host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"content-length: {len(data)}\r\n\r\n")
        return await self._client.post(target, "\r\n".join(lines).encode("latin-1"), data)


async def whole(call: Call, response: Response, named: Mapping[str, Any]) -> dict[str, Any]:
    """A whole answer as OpenAI's object."""
    parts = []
    while data := await response.read():
        parts.append(data)
    body = b"".join(parts)
    if is_openai(call):
        return _decode(body)
    return surface.answer_of_anthropic(call.model, body, named)


async def chunks(call: Call, response: Response) -> AsyncIterator[dict[str, Any]]:
    """A stream as OpenAI's chunks. An error event is raised as Refused."""
    parser = None if is_openai(call) else surface.anthropic_chunks()
    async for data in datas(response.read):
        if data == b"[DONE]":
            return
        try:
            event = _decode(data)
        except msgspec.DecodeError:
            continue  # a keep-alive in a data field, or one broken event: the rest may be whole
        if event.get("error") or event.get("object") == "error":
            raise Refused(_status(event), [], data)
        if parser is None:
            yield event
        else:
            yield surface.plain(parser.chunk_parser(event))


def _status(event: Mapping[str, Any]) -> int:
    error = event.get("error")
    code = error.get("code") if isinstance(error, dict) else event.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    overloaded = isinstance(error, dict) and error.get("type") == "overloaded_error"
    return 529 if overloaded else 502
