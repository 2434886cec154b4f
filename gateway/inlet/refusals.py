"""What the server itself answers, where no request can be made of what came."""

from __future__ import annotations


class HeadTooLarge(Exception):
    """A request's head above MAX_HEAD_BYTES."""


def _refusal(status: bytes, said: bytes) -> bytes:
    return (
        b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
        b"connection: close\r\n\r\n%b" % (status, len(said), said)
    )


NO_HTTP = _refusal(b"400 Bad Request", b"this is no HTTP request\n")
TOO_LATE = _refusal(b"408 Request Timeout", b"the head of the request took too long\n")
TOO_LARGE = _refusal(b"431 Request Header Fields Too Large", b"the request's head is too large\n")
