"""The commands' side of the API: one answer, or an error that a person can read."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

import httpx

from serving.errors import ServingError, Unusable

_LIMIT_S: Final = 30.0


class Refused(ServingError):
    """The control plane says no; the message is its own."""


class Asks:
    """A client of the control plane, to be used with `with`."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # trust_env: a proxy of the user's shell must not stand before loopback.
        self._client = httpx.Client(
            base_url=url, headers=headers, timeout=_LIMIT_S, trust_env=False
        )

    def __enter__(self) -> Asks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def get(self, path: str, **query: str) -> Any:
        """The answer to a GET. Raises Unusable, Refused."""
        return self._answer("GET", path, params=query)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to a POST. Raises Unusable, Refused."""
        return self._answer("POST", path, json=body)

    def _answer(self, method: str, path: str, **more: Any) -> Any:
        try:
            answer = self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise Unusable(
                f"no control plane at {self._client.base_url} ({type(error).__name__}): "
                "`serving slot serve` starts one, --url names another"
            ) from error
        try:
            data = answer.json()
        except ValueError as error:
            raise Unusable(f"{self._client.base_url} is no control plane") from error
        if answer.status_code >= 400:
            raise Refused(str((data.get("error") or {}).get("message", answer.status_code)))
        return data
