"""What a client can be told, as a tree. Every one has a stable `code` and says what to do.

Refusal
    BadRequest          400  invalid_request, empty_input, unsupported_parameter, ...
      TooLong           400  context_length_exceeded
      NoSuchDimensions  400  unsupported_dimensions
      UnknownToken      400  unknown_token
    BadKey              401  invalid_api_key
    NoSuchModel         404  model_not_found
    TooLarge            413  request_too_large: it would never fit, so it is not tried again
    Busy                429  queue_full, with Retry-After
    Failed              500  embedding_failed: the model could not compute a pass
    NotReady            503  model_loading, with Retry-After
"""

from __future__ import annotations

from typing import Any, ClassVar


class Refusal(Exception):
    """A request that is not served; `headers` and `body()` are its answer in OpenAI's shape."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "invalid_request"
    type: ClassVar[str] = "invalid_request_error"

    def __init__(
        self, message: str, *, param: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.param = param
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> dict[str, str]:
        """Retry-After where trying again makes sense."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}

    def body(self) -> dict[str, Any]:
        """OpenAI's error envelope."""
        inner = {"message": str(self), "type": self.type, "param": self.param, "code": self.code}
        return {"error": inner}


class BadRequest(Refusal):
    """The body is not what the API takes."""


class EmptyInput(BadRequest):
    """There is nothing to embed."""

    code = "empty_input"


class UnsupportedParameter(BadRequest):
    """A parameter that would change the vectors, which this lane does not do."""

    code = "unsupported_parameter"


class TooLong(BadRequest):
    """A text is longer than the model takes, and nobody asked for it to be cut."""

    code = "context_length_exceeded"


class NoSuchDimensions(BadRequest):
    """The model is not trained to be cut to this size."""

    code = "unsupported_dimensions"


class UnknownToken(BadRequest):
    """Token ids of another tokenizer."""

    code = "unknown_token"


class BadKey(Refusal):
    """The key is missing or another one."""

    status = 401
    code = "invalid_api_key"
    type = "authentication_error"


class NoSuchModel(Refusal):
    """Another model's name: its vectors would not fit the caller's index."""

    status = 404
    code = "model_not_found"


class TooLarge(Refusal):
    """More than one request may ever bring."""

    status = 413
    code = "request_too_large"


class Busy(Refusal):
    """Too much is waiting."""

    status = 429
    code = "queue_full"
    type = "rate_limit_error"


class Failed(Refusal):
    """The model could not compute a pass. Others are not touched."""

    status = 500
    code = "embedding_failed"
    type = "server_error"


class NotReady(Refusal):
    """The model is still loading, or the server stops."""

    status = 503
    code = "model_loading"
    type = "server_error"
