"""The recorder by itself: exactly one record a request, in whatever order the proxy tells of it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from gateway.bridge.child import OFFLINE
from gateway.bridge.flight import failure
from gateway.bridge.stock import Names, read
from gateway.records.record import Record

os.environ.update(OFFLINE)  # before litellm is imported: it would ask hosts on the internet

from gateway.bridge import recorder as module
from gateway.bridge.recorder import Recorder

META = {"user_api_key_hash": "litellm_proxy_master_key", "model_group": "chat"}


class Proxy:
    """Tells a recorder of one request, piece by piece; a clock ticks with each."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.now = 1000.0
        names = Names(revision="rev")
        self.recorder = Recorder(self.records.append, names=names, clock=self.tick)

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    async def request(self, call_id: str = "1", kind: str = "acompletion", **data: Any) -> None:
        said = {"litellm_call_id": call_id, "model": "chat", "metadata": META, **data}
        assert await self.recorder.async_pre_call_hook(None, None, said, kind) is None  # type: ignore[func-returns-value]

    async def attempt(self, model_id: str = "a", call_id: str = "1") -> None:
        await self.recorder.async_pre_call_deployment_hook(
            {
                "litellm_call_id": call_id,
                "model": "hosted_vllm/m",
                "api_base": "http://gpu:8000/v1",
                "model_info": {"id": model_id},
                "metadata": META,
            },
            None,
        )

    async def attempt_failed(self, error: Exception, call_id: str = "1") -> None:
        said = {"litellm_call_id": call_id}
        await self.recorder.async_post_call_failure_deployment_hook(said, error, None)

    async def answered(self, call_id: str = "1", **payload: Any) -> None:
        said = {"litellm_call_id": call_id, "standard_logging_object": payload}
        await self.recorder.async_log_success_event(said, None, None, None)

    async def refused(self, error: Exception, call_id: str = "1") -> None:
        said = {"litellm_call_id": call_id}
        await self.recorder.async_post_call_failure_hook(said, error, None)


class Status(Exception):
    """An exception with a status, as LiteLLM's have."""

    def __init__(self, status_code: int) -> None:
        super().__init__("no")
        self.status_code = status_code


async def test_a_fallback_is_one_record_with_every_attempt() -> None:
    proxy = Proxy()

    await proxy.request()
    await proxy.attempt("a")
    await proxy.attempt_failed(Status(503))
    await proxy.attempt("b")
    await proxy.answered(metadata={"usage_object": {"prompt_tokens": 7, "completion_tokens": 3}})
    await proxy.answered()

    (record,) = proxy.records
    assert [(a.deployment, a.outcome) for a in record.attempts] == [("a", "http-503"), ("b", "ok")]
    assert (record.outcome, record.client, record.upstream) == ("ok", "master", "gpu:8000")
    assert (record.prompt_tokens, record.completion_tokens, record.config) == (7, 3, "rev")


async def test_an_attempt_that_is_told_twice_is_one() -> None:
    proxy = Proxy()

    await proxy.request(kind="anthropic_messages")
    await proxy.attempt()
    await proxy.attempt()
    await proxy.answered()

    (record,) = proxy.records
    assert (record.dialect, len(record.attempts)) == ("messages", 1)


async def test_who_did_not_pass_the_key_check_has_no_record() -> None:
    proxy = Proxy()

    await proxy.refused(Status(401))
    await proxy.answered()

    assert proxy.records == []


async def test_kinds_that_this_project_does_not_serve_have_no_record() -> None:
    proxy = Proxy()

    await proxy.request(kind="image_generation")
    await proxy.answered()

    assert proxy.records == []


async def test_a_request_that_nobody_tells_the_end_of_fails_when_the_process_ends() -> None:
    proxy = Proxy()
    await proxy.request("1")
    await proxy.attempt()

    proxy.recorder.close()
    proxy.recorder.close()

    (record,) = proxy.records
    assert (record.outcome, record.attempts[0].outcome) == ("failed", "broken")


async def test_the_oldest_is_recorded_when_too_many_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_FLIGHTS", 2)
    proxy = Proxy()

    for number in range(3):
        await proxy.request(str(number))

    assert [r.id for r in proxy.records] == ["0"]


async def test_a_client_that_leaves_a_stream_is_cancelled_and_its_tokens_an_estimate() -> None:
    proxy = Proxy()

    await proxy.request(stream=True)
    await proxy.attempt()
    await proxy.answered(
        error_str="Client disconnected the request",
        prompt_tokens=8,
        completion_tokens=2,
        completionStartTime=1001.5,
        endTime=1004.0,
    )

    (record,) = proxy.records
    assert (record.outcome, record.status, record.estimated) == ("cancelled", 200, True)
    assert (record.ttft_ms, record.duration_ms) == (500.0, 3000.0)


async def test_what_the_proxy_counts_itself_is_not_taken_for_the_engines() -> None:
    proxy = Proxy()
    own = {"reasoning_tokens": 0, "text_tokens": 3}
    said = {"prompt_tokens": 7, "completion_tokens": 3, "completion_tokens_details": own}

    await proxy.request(stream=True)
    await proxy.answered(metadata={"usage_object": said})

    (record,) = proxy.records
    assert (record.completion_tokens, record.reasoning_tokens) == (3, None)


async def test_text_of_a_client_is_cut_and_an_unknown_name_is_not_kept() -> None:
    proxy = Proxy()
    headers = {"x-client": "x" * 200, "x-task": "title"}

    await proxy.request(metadata={**META, "headers": headers}, model="m" * 200)
    missing = type("ProxyModelNotFoundError", (Status,), {})
    await proxy.refused(missing(400))

    (record,) = proxy.records
    assert (len(record.app), record.requested_model, record.task) == (64, None, "title")
    assert (record.outcome, record.status, record.error) == ("refused", 400, "model_not_found")


@pytest.mark.parametrize(
    ("name", "status", "expected"),
    [
        ("Timeout", 408, (408, "upstream_timeout", "timeout")),
        ("RateLimitError", 429, (429, "saturated", "http-429")),
        ("ContextWindowExceededError", 400, (400, "context_length_exceeded", "http-400")),
        ("InternalServerError", 500, (500, "upstream_failed", "http-500")),
    ],
)
def test_an_exception_of_the_library_has_our_words(
    name: str, status: int, expected: tuple[int, str, str]
) -> None:
    assert failure(type(name, (Status,), {})(status)) == expected


def test_without_a_file_the_proxys_own_names_stand() -> None:
    names = read(None, {})

    served = names.served("chat", "hash", "hosted_vllm/m", "http://gpu:8000/v1/")

    assert (names.revision, served.deployment, served.upstream) == ("unknown", "hash", "gpu:8000")
