"""Why a request got no whole answer. Everything the client raises is a `ClientError`.

    ClientError
    |- ConnectFailed      no connection, so nothing was sent
    |- NoAnswer           closed or reset before the first byte of an answer
    |  `- StaleConnection the same, on a kept-alive connection; the client tries once more
    |- BadAnswer          not HTTP, or broken in a way that leaves its meaning open
    |- Truncated          closed or reset before the end of the body
    `- Aborted            our side closed the connection

Messages name the upstream's address; they are for logs, not for those who sent the request.
"""

from __future__ import annotations


class ClientError(Exception):
    """The request got no whole answer."""


class ConnectFailed(ClientError):
    """No connection could be made: nothing was sent."""


class NoAnswer(ClientError):
    """The request was sent, perhaps in part; no byte of an answer came back."""


class StaleConnection(NoAnswer):
    """A kept-alive connection had been closed by the peer. Never leaves the client."""


class BadAnswer(ClientError):
    """What came back is not HTTP/1.1, or says two things at once."""


class Truncated(ClientError):
    """The answer stopped before its end; what `read` gave before is a part."""


class Aborted(ClientError):
    """The connection was closed by this side."""
