"""What a caller of the control plane can be told, as a tree; each has a stable code.

Refusal
    BadRequest      400  bad_request
      BadSwitch     400  unknown_recipe, bad_overrides
    BadKey          401  invalid_api_key
    Foreign         403  foreign_host: a name or page of another machine, where there is no key
    UnknownRecipe   404  unknown_recipe
    Busy            409  busy: streams run or a load goes on, and nobody confirmed
    Unavailable     503  loading, swapping, not_loaded, failed, full, waited; with Retry-After
"""

from __future__ import annotations

from typing import Any, ClassVar


class Refusal(Exception):
    """A request that is not served; `body()` and `headers` are its answer."""

    status: ClassVar[int] = 400
    type: ClassVar[str] = "invalid_request_error"

    def __init__(self, message: str, code: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.more = more

    @property
    def headers(self) -> dict[str, str]:
        """Retry-After where coming back makes sense."""
        seconds = self.more.get("retry_after_s")
        return {} if seconds is None else {"Retry-After": str(seconds)}

    def body(self) -> dict[str, Any]:
        """The error, and what belongs to it."""
        return {"error": {"message": str(self), "type": self.type, "code": self.code}, **self.more}


class BadRequest(Refusal):
    """The request is not what the API takes."""

    def __init__(self, message: str, code: str = "bad_request") -> None:
        super().__init__(message, code)


class BadKey(Refusal):
    """The key is missing or another one."""

    status = 401
    type = "authentication_error"

    def __init__(self) -> None:
        super().__init__("the key is missing or not this slot's", "invalid_api_key")


class Foreign(Refusal):
    """Without a key only this machine is served, under its own names."""

    status = 403
    type = "authentication_error"

    def __init__(self, given: str) -> None:
        super().__init__(f"{given!r:.80} is not this machine's loopback", "foreign_host")


class UnknownRecipe(Refusal):
    """No enabled recipe has this id."""

    status = 404

    def __init__(self, name: str, known: str) -> None:
        super().__init__(f"there is no recipe {name!r:.80}; there is {known}", "unknown_recipe")


class Busy(Refusal):
    """A swap now would hold up or end what runs."""

    status = 409
    type = "slot_busy"

    def __init__(self, message: str) -> None:
        super().__init__(message, "busy")


class Unavailable(Refusal):
    """No lease now; `retry_after_s` says when to come back."""

    status = 503
    type = "slot_unavailable"
