"""The lane with a real small model, asked by real clients, in a process of its own."""

from __future__ import annotations

import signal
import struct
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from langchain_openai import OpenAIEmbeddings
from openai import BadRequestError, NotFoundError, OpenAI

from tests.embeddings.processes import Running, lane, lane_running, running, wait_until_ready
from tests.served import free_port

TEXTS = [
    "How do I reset my password?",
    "To change your password, open the account page.",
    "The train to Cologne leaves from track three.",
]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with lane_running(tmp_path_factory.mktemp("minilm"), "minilm") as it:
        yield it


@pytest.fixture(scope="module")
def openai(minilm: Running) -> OpenAI:
    return OpenAI(base_url=minilm.url, api_key="none", max_retries=0)


def test_the_vectors_are_real(minilm: Running) -> None:
    asked, answer, other = minilm.vectors(TEXTS)

    assert asked @ answer > 0.5
    assert asked @ other < 0.2
    assert np.allclose(np.linalg.norm([asked, answer, other], axis=1), 1.0, atol=1e-6)


def test_a_text_alone_and_in_company_gets_one_vector(minilm: Running) -> None:
    texts = [*TEXTS, "a", "def f(x): return x\n" * 20]
    alone = np.concatenate([minilm.vectors(text) for text in texts])

    assert float(np.abs(minilm.vectors(texts) - alone).max()) < 1e-5


def test_openais_client_gets_the_same_in_every_format(openai: OpenAI, minilm: Running) -> None:
    ours = openai.embeddings.create(model="all-MiniLM-L6-v2", input=TEXTS)  # base64, unasked
    floats = openai.embeddings.create(
        model="all-MiniLM-L6-v2", input=TEXTS, encoding_format="float"
    )
    raw = minilm.ask(TEXTS, encoding_format="base64").json()["data"]

    assert [row.embedding for row in ours.data] == [row.embedding for row in floats.data]
    assert struct.unpack("<384f", b64decode(raw[0]["embedding"])) == tuple(ours.data[0].embedding)
    assert ours.usage.prompt_tokens == minilm.ask(TEXTS).json()["usage"]["prompt_tokens"]


def test_without_a_format_numbers_come_back(minilm: Running) -> None:
    assert isinstance(minilm.ask("a").json()["data"][0]["embedding"], list)


def test_a_single_text_is_taken_as_a_list_of_one(minilm: Running) -> None:
    assert np.array_equal(minilm.vectors(TEXTS[0]), minilm.vectors(TEXTS[:1]))


def test_langchain_is_told_how_to_send_text(minilm: Running) -> None:
    """By default it sends the numbers of OpenAI's tokenizer; most are not in this vocabulary."""
    answer = minilm.ask([[4438, 656, 358, 7738, 856, 3636, 30, 100_000]])
    told = OpenAIEmbeddings(
        model="all-MiniLM-L6-v2",
        base_url=minilm.url,
        api_key="none",  # type: ignore[arg-type]
        check_embedding_ctx_length=False,
    ).embed_documents(TEXTS)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unknown_token"
    assert "check_embedding_ctx_length=False" in answer.json()["error"]["message"]
    assert np.allclose(told, minilm.vectors(TEXTS), atol=1e-6)


def test_the_models_own_token_ids_are_the_text(minilm: Running) -> None:
    hello = [101, 7592, 2088, 102]

    for ids in (hello, hello[1:3], [hello]):
        assert np.array_equal(minilm.vectors(ids), minilm.vectors("hello world"))


def test_more_inputs_or_bytes_than_the_limit_are_413_with_the_limit(minilm: Running) -> None:
    inputs = minilm.ask(["a"] * 2049)
    size = minilm.ask(["x" * 500_000] * 10)

    assert (inputs.status_code, size.status_code) == (413, 413)
    assert "2048" in inputs.text
    assert "4194304" in size.text


def test_dimensions_are_the_native_ones_or_refused(openai: OpenAI) -> None:
    native = openai.embeddings.create(model="all-MiniLM-L6-v2", input="a", dimensions=384)

    assert len(native.data[0].embedding) == 384
    with pytest.raises(BadRequestError) as caught:
        openai.embeddings.create(model="all-MiniLM-L6-v2", input="a", dimensions=256)
    assert caught.value.code == "unsupported_dimensions"


def test_another_models_name_is_404(openai: OpenAI) -> None:
    with pytest.raises(NotFoundError) as caught:
        openai.embeddings.create(model="text-embedding-3-small", input="a")
    assert caught.value.code == "model_not_found"


def test_a_long_text_is_refused_or_cut_as_asked(minilm: Running) -> None:
    long = "signal " * 400
    refused = minilm.ask(long)
    cut = minilm.ask(long, truncate_prompt_tokens=-1)

    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert "402 tokens; the limit is 256" in refused.json()["error"]["message"]
    assert cut.json()["usage"]["prompt_tokens"] == 256


def test_metrics_tell_of_work_and_memory(minilm: Running) -> None:
    minilm.vectors(TEXTS)
    text = minilm.client.get("/metrics").text

    assert "embeddings_texts_total" in text
    assert "process_resident_memory_bytes" in text
    assert "embeddings_waiting_tokens 0.0" in text


def test_it_says_503_until_the_model_is_there_and_200_after(tmp_path: Path) -> None:
    port = free_port()
    command = [*lane("minilm"), "--port", str(port)]
    with running(command, tmp_path, port=port, ready=False) as it:
        seen: list[int] = []
        while not seen or seen[-1] != 200:
            try:
                seen.append(it.client.get("/health").status_code)
            except httpx.TransportError:
                assert it.process.poll() is None
        wait_until_ready(it)

    assert set(seen) == {503, 200}


def test_sigterm_answers_what_is_under_way_and_ends_with_0(tmp_path: Path) -> None:
    with lane_running(tmp_path, "minilm") as it:
        with it.client.stream("POST", "/v1/embeddings", content=_slow_body(it)) as answer:
            answer.read()
        code = it.process.wait(20)

    assert answer.status_code == 200
    assert len(answer.json()["data"]) == 200
    assert code == 0


def _slow_body(it: Running) -> Iterator[bytes]:
    """A request that is under way when the signal comes: half of its body is sent."""
    yield b'{"input": ["' + b'", "'.join([b"signal box"] * 200)
    it.process.send_signal(signal.SIGTERM)
    yield b'"]}'


def test_a_model_that_is_none_is_one_line_and_exit_1(tmp_path: Path) -> None:
    import subprocess

    done = subprocess.run(
        lane(tmp_path / "nothing"), capture_output=True, text=True, check=False, timeout=30
    )

    assert done.returncode == 1
    assert done.stderr.startswith("serving: ")
    assert done.stderr.count("\n") == 1
