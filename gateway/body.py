"""A request's body: a JSON object whose top level is decoded, and whose values stay raw bytes.

Shared by relay and bridge. What is wrong is said without quoting what the body holds.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.config.refused import REFUSED_BODY_NAMES, is_refused
from gateway.errors import BadRequest, TooLarge
from gateway.inbound import HeaderMap, Inbound
from gateway.routing.table import TASK_PREFIX

Fields = dict[str, msgspec.Raw]

_SMALL_BYTES = 16384
_encode = msgspec.json.encode
_decode_top = msgspec.json.Decoder(Fields).decode
# Unrolled, so that a string of many megabytes is passed over at the speed of the regex engine.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]', re.DOTALL)
_IDS_OR_TEXTS = re.compile(rb"\s*\[\s*(\[\s*)?[\d\"]")
# kind -> (decoder, what a wrong value is told)
_KINDS: dict[type, tuple[msgspec.json.Decoder[Any], str]] = {
    str: (msgspec.json.Decoder(str | None), "a string"),
    int: (msgspec.json.Decoder(int | None), "a whole number"),
    bool: (msgspec.json.Decoder(bool | None), "true or false"),
    dict: (msgspec.json.Decoder(dict[str, Any] | None), "an object"),
}


def too_large(max_bytes: int) -> TooLarge:
    """The error for a body above the limit."""
    return TooLarge(f"the body is above the limit of {max_bytes} bytes ({_LIMIT})")


_LIMIT = "gateway_settings.max_body_mb"


async def read_body(inbound: Inbound, max_bytes: int) -> bytes:
    """The whole body, inflated. Raises TooLarge without reading the rest; ClientLeft."""
    headers = inbound.headers
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit() or int(declared) > max_bytes:
        raise too_large(max_bytes)
    body = await inbound.body(max_bytes)
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    encoding = headers.get(b"content-encoding")
    return body if encoding is None else inflate(body, encoding, max_bytes)


def inflate(body: bytes, encoding: bytes, max_bytes: int) -> bytes:
    """A body without its Content-Encoding. BadRequest; TooLarge by what comes out."""
    if encoding.lower() in (b"identity", b""):
        return body
    if encoding.lower() != b"gzip":
        raise BadRequest("Content-Encoding may be gzip or identity", status=415)
    stream = zlib.decompressobj(wbits=31)
    try:
        body = stream.decompress(body, max_bytes + 1)
    except zlib.error:
        raise BadRequest("the body says Content-Encoding: gzip and is no gzip") from None
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    if not stream.eof:
        raise BadRequest("the gzip body is cut short")
    return body


def decode(body: bytes) -> Fields:
    """The top level of a body. BadRequest if it is no object, or holds a name that it may not."""
    try:
        if not body.isascii():
            body.decode()  # raw values are not looked into, and engines choke on broken UTF-8
        fields = _decode_top(body)
    except UnicodeDecodeError as wrong:
        raise BadRequest(f"the body is not UTF-8: at byte {wrong.start}") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except msgspec.DecodeError as wrong:
        raise BadRequest(f"the body must be a JSON object: {_position(wrong)}") from None
    # A name may be written with \\u escapes, so it is the decoded one that counts.
    if not REFUSED_BODY_NAMES.isdisjoint(fields) or b"mock_" in body or b"\\u" in body:
        _refuse_names(fields)
    # Most bodies are written in one of two ways: without a space, or with Python's separators.
    if not (_is_written(fields, body, b",", b":") or _is_written(fields, body, b", ", b": ")):
        _refuse_repeats(body)
    return fields


def _refuse_names(fields: Fields) -> None:
    for name in fields:
        if is_refused(name):
            raise BadRequest(f"the field '{name[:64]}' may not be sent: the gateway's file decides")


def _is_written(fields: Fields, body: bytes, comma: bytes, colon: bytes) -> bool:
    """True if the body is exactly these fields with these separators, so no name stands twice.

    Looks at names and lengths alone: values may be many megabytes.
    """
    if comma == b"," and len(body) < _SMALL_BYTES:
        return _encode(fields) == body  # quicker, while a copy costs nothing
    at, before = 0, b"{"
    for name, raw in fields.items():
        head = before + _encode(name) + colon
        if not body.startswith(head, at):
            return False
        at += len(head) + memoryview(raw).nbytes
        before = comma
    return body[at:] == b"}"


def _refuse_repeats(body: bytes) -> None:
    """BadRequest if a name stands twice in the outermost object. The body is valid JSON."""
    seen: set[str] = set()
    depth, name_follows = 0, False
    for token in _TOKEN.finditer(body):
        mark = body[token.start()]
        if mark == 0x22:
            if name_follows and depth == 1:
                name: str = msgspec.json.decode(token.group())  # an escaped name is the same name
                if name in seen:
                    raise BadRequest(f"the body names '{name[:64]}' twice")
                seen.add(name)
            name_follows = False
        elif mark in b"{[":
            depth, name_follows = depth + 1, depth == 0
        elif mark in b"}]":
            depth -= 1
        else:
            name_follows = depth == 1


def read(fields: Mapping[str, msgspec.Raw], name: str, kind: type) -> Any:
    """A field's value, or None where it is absent or null. BadRequest where its type is wrong."""
    raw = fields.get(name)
    if raw is None:
        return None
    decoder, wanted = _KINDS[kind]
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise BadRequest(f"'{name}' must be {wanted}") from None


def no_fallback(headers: HeaderMap) -> bool:
    """True if X-No-Fallback says so."""
    return headers.get(b"x-no-fallback", b"").lower() in (b"true", b"1", b"yes")


def callers(affinity: Mapping[str, str], headers: HeaderMap, client: str) -> dict[str, str]:
    """For each group with affinity who is calling: the client's name, or a header's value."""
    found = {
        group: client if by == "key" else headers.get(by.lower().encode(), b"").decode("latin-1")
        for group, by in affinity.items()
    }
    return {group: caller for group, caller in found.items() if caller}


def low_estimate(fields: Fields, body: bytes) -> int:
    """A number of tokens that the prompt surely has; 0 where its bytes say nothing about it."""
    if b'"data:' in body or b'"image_url"' in body or b'"input_audio"' in body:
        return 0
    if "documents" in fields:
        return 0
    for name in ("input", "prompt"):
        # Token ids say nothing by their bytes, and of several texts each has a window to itself.
        if name in fields and _IDS_OR_TEXTS.match(fields[name]):
            return 0
    return len(body) // 8


def task_of(fields: Fields, header: bytes | None, model: str | None) -> str | None:
    """The task of X-Task, metadata.task or a model name task/NAME; two that differ are refused."""
    said: set[str] = set()
    if header is not None:
        said.add(header.decode("latin-1").strip())
    if "metadata" in fields:
        task = (read(fields, "metadata", dict) or {}).get("task")
        if isinstance(task, str):
            said.add(task)
    if model is not None and model.startswith(TASK_PREFIX):
        said.add(model.removeprefix(TASK_PREFIX))
    if len(said) > 1:
        raise BadRequest("the request names two different tasks: send one", code="two_tasks")
    return said.pop() if said else None


def _position(wrong: msgspec.DecodeError) -> str:
    text = str(wrong)
    return text if "byte" in text and "key" not in text else "it is another JSON value"
