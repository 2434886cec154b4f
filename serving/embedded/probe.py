"""Waiting for a child process to answer over HTTP."""

from __future__ import annotations

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from serving.embedded.child import Child

PAUSE_S = 0.05


class NotReadyError(Exception):
    """It runs, and does not answer 200 yet."""


class EndedError(Exception):
    """It ended before it answered; the argument is its exit code."""


async def until_200(url: str, child: Child, *, within_s: float) -> None:
    """Return once a GET of `url` gives 200.

    Raises EndedError as soon as the child has ended, NotReadyError after `within_s`.
    """
    attempts = AsyncRetrying(
        retry=retry_if_exception_type((NotReadyError, httpx.TransportError)),
        wait=wait_fixed(PAUSE_S),
        stop=stop_after_delay(within_s),
        reraise=True,
    )
    # trust_env: a proxy of the user's shell must not stand between us and loopback.
    async with httpx.AsyncClient(trust_env=False, timeout=5.0) as client:
        try:
            await attempts(_probe, client, url, child)
        except httpx.TransportError as error:
            raise NotReadyError from error


async def _probe(client: httpx.AsyncClient, url: str, child: Child) -> None:
    if not child.running:
        raise EndedError(await child.wait())
    if (await client.get(url)).status_code != 200:
        raise NotReadyError
