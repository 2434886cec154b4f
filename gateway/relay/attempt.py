"""Attempt: one request to one engine, over the relay's HTTP client. Step 5.

The only file beside http1/ that touches that client: its errors become ours here.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from gateway.config.config import Deployment, Dialect
from gateway.dialects import SUFFIXES
from gateway.exchange import Answer, Broken, Headers, NotConnected, Request
from gateway.fit import Fit
from gateway.http1.client import Client, Response, Target
from gateway.http1.errors import ClientError, ConnectFailed


class _Line:
    """How to reach one deployment: made once, and again when a reload changes it."""

    __slots__ = ("deployment", "fit", "heads", "target")

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.fit = Fit.of(deployment)
        base = urlsplit(deployment.api_base or "")
        tls = base.scheme == "https"
        host, port = base.hostname or "", base.port or (443 if tls else 80)
        self.target = Target(host, port, tls)
        self.heads: dict[Dialect, bytes] = {
            dialect: _head(base.path.rstrip("/") + SUFFIXES[dialect], base.netloc, deployment)
            for dialect in deployment.relays
        }


def _head(path: str, netloc: str, deployment: Deployment) -> bytes:
    """The part of a request's head that never changes. Only listed headers ever go up."""
    key = f"Authorization: Bearer {deployment.api_key}\r\n" if deployment.api_key else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: {netloc}\r\n{key}Content-Type: application/json\r\n"
        "Accept-Encoding: identity\r\nUser-Agent: signalbox\r\n"
    ).encode("latin-1")


class EngineAnswer:
    """An answer of an engine; see exchange.Answer."""

    __slots__ = ("_response", "abort", "headers", "status")

    def __init__(self, response: Response) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Headers = response.headers
        self.abort = response.abort

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except ClientError as error:
            raise Broken(str(error)) from error


class EngineSender:
    """Relays requests to engines that speak the client's dialect; see exchange.Sender."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lines: dict[str, _Line] = {}

    async def send(self, request: Request, deployment: Deployment) -> Answer:
        line = self._lines.get(deployment.id)
        if line is None or line.deployment is not deployment:
            line = self._lines[deployment.id] = _Line(deployment)
        body = line.fit.body(request)
        up = b"".join(b"%b: %b\r\n" % header for header in request.headers.items())
        head = b"%bX-Request-Id: %b\r\n%bContent-Length: %d\r\n\r\n" % (
            line.heads[request.dialect],
            request.id,
            up,
            len(body),
        )
        try:
            return EngineAnswer(await self._client.post(line.target, head, body))
        except ConnectFailed as error:
            raise NotConnected(str(error)) from error
        except ClientError as error:
            raise Broken(str(error)) from error
