"""The lane against sentence-transformers and llama.cpp, with a small random Qwen3 model.

torch, transformers and sentence-transformers are in .embed-venv, which `make embed-venv` fills; the
servers run there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.embeddings.processes import Running, Vectors, lane_running, running
from tests.ground.repository import ROOT
from tests.served import free_port

HERE = Path(__file__).parent
PYTHON = ROOT / ".embed-venv/bin/python"
WITHIN = 1e-5
TEXTS = [
    "Hello world",
    "def f(x):\n    return x + 1\n",
    "The signaller sets the route, and the interlocking proves it. " * 9,
    "a",
    "Wann fährt der Zug nach Köln? 列车 🚆",
    "for each in range(10): print(each)",
]
LONG = "import os, sys, json  # and so on: a line that is longer than one pass of the model\n" * 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model is."""
    made = tmp_path_factory.mktemp("tiny")
    subprocess.run([PYTHON, HERE / "tiny_model.py", made], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def ours(folder: Path) -> Iterator[Running]:
    with lane_running(folder, folder / "model", "--matryoshka-from", "8", python=PYTHON) as it:
        yield it


@pytest.fixture(scope="module")
def others(folder: Path) -> Iterator[Running]:
    port = free_port()
    command = [PYTHON, HERE / "other_servers.py", folder / "model", str(port)]
    with running(command, folder, port=port) as it:
        yield it


@pytest.fixture(scope="module")
def reference(others: Running) -> Running:
    return replace(others, way="/reference")


@pytest.fixture(scope="module")
def llama(folder: Path) -> Iterator[Running]:
    port = free_port()
    command = [sys.executable, HERE / "llama.py", folder / "model.gguf", str(port)]
    with running(command, folder, port=port) as it:
        yield it


def same(left: Vectors, right: Vectors) -> bool:
    return left.shape == right.shape and float(np.abs(left - right).max()) < WITHIN


def test_a_batch_of_unequal_lengths_is_what_sentence_transformers_gives(
    ours: Running, reference: Running
) -> None:
    assert same(ours.vectors(TEXTS), reference.vectors(TEXTS))


def test_a_batch_of_unequal_lengths_is_what_llama_cpp_gives(ours: Running, llama: Running) -> None:
    found = ours.ask(TEXTS).json()

    assert same(ours.vectors(TEXTS), llama.vectors(TEXTS))
    assert found["usage"]["prompt_tokens"] == llama.ask(TEXTS).json()["usage"]["prompt_tokens"]


def test_a_text_alone_and_in_company_gets_one_vector(ours: Running) -> None:
    alone = np.concatenate([ours.vectors(text) for text in TEXTS])

    assert same(ours.vectors(TEXTS), alone)


def test_a_text_longer_than_a_pass_is_computed_in_parts_and_is_the_same(
    ours: Running, reference: Running
) -> None:
    tokens = ours.ask(LONG).json()["usage"]["prompt_tokens"]

    assert tokens > 2 * 256
    assert same(ours.vectors([LONG, "a"]), reference.vectors([LONG, "a"]))


def test_truncation_keeps_the_terminal_token(ours: Running, reference: Running) -> None:
    answer = ours.ask(LONG, truncate_prompt_tokens=64)

    assert answer.json()["usage"]["prompt_tokens"] == 64
    assert same(
        ours.vectors(LONG, truncate_prompt_tokens=64), reference.vectors(LONG, max_seq_length=64)
    )


def test_token_ids_are_the_text_they_came_from(ours: Running, folder: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "model/tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in TEXTS]

    assert all(row[-1] == 0 for row in ids)
    assert same(ours.vectors(ids), ours.vectors(TEXTS))
    # Ids that come without it get it: the last token's vector would be another token's.
    assert same(ours.vectors([row[:-1] for row in ids]), ours.vectors(TEXTS))
    assert same(ours.vectors([[*row, 0] for row in ids]), ours.vectors(TEXTS))


def test_a_prompt_is_the_clients_and_nothing_is_added(ours: Running, others: Running) -> None:
    prompt = "Instruct: Given a web search query, retrieve relevant passages\nQuery:"

    theirs = replace(others, way="/query").vectors(TEXTS)

    assert same(ours.vectors([prompt + text for text in TEXTS]), theirs)
    assert not same(ours.vectors(TEXTS), theirs)


def test_fewer_dimensions_are_cut_and_normalised_again(ours: Running) -> None:
    whole, cut = ours.vectors(TEXTS), ours.vectors(TEXTS, dimensions=16)

    assert cut.shape == (len(TEXTS), 16)
    assert np.allclose(np.linalg.norm(cut, axis=1), 1.0, atol=1e-6)
    assert np.allclose(cut * np.linalg.norm(whole[:, :16], axis=1, keepdims=True), whole[:, :16])
    assert ours.ask("a", dimensions=4).json()["error"]["code"] == "unsupported_dimensions"


def test_a_tokenizer_without_the_terminal_token_is_refused(folder: Path, tmp_path: Path) -> None:
    import json
    import shutil

    shutil.copytree(folder / "model", tmp_path / "model")
    path = tmp_path / "model/tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))

    done = start(tmp_path / "model")

    assert done.returncode == 1
    assert b"adds 0 terminal tokens" in done.stderr


def test_a_model_that_asks_for_another_pooling_is_refused(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder / "model", tmp_path / "model")
    (tmp_path / "model/1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')

    done = start(tmp_path / "model")

    assert done.returncode == 1
    assert b"another pooling" in done.stderr


def start(model: Path) -> subprocess.CompletedProcess[bytes]:
    from tests.embeddings.processes import lane

    command = lane(model, "--port", str(free_port()), python=PYTHON)
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)


THREADS = """
import sys, time
from pathlib import Path
from serving.embeddings import processor
processor.limit_threads(int(sys.argv[2]))
from serving.embeddings.models import Wanted, loader
import torch

def ticks():
    stats = {t.name: (t / "stat").read_text() for t in Path("/proc/self/task").iterdir()}
    return {n: sum(map(int, s.rsplit(")", 1)[1].split()[11:13])) for n, s in stats.items()}

encoder = loader(Wanted(model=sys.argv[1], threads=int(sys.argv[2]), pass_tokens=4096))()
rows = [[7] * 512] * 8
encoder.encode(rows)
before, end = ticks(), time.monotonic() + 1.5
while time.monotonic() < end:
    encoder.encode(rows)
print(torch.get_num_threads(), sum(now - before.get(n, 0) > 1 for n, now in ticks().items()))
"""


def test_torch_computes_in_the_threads_that_were_given(folder: Path) -> None:
    """Four on two cores as well: threads are counted here, not speed."""
    command = [str(PYTHON), "-c", THREADS, str(folder / "model"), "4"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["4", "4"]


def gate(reference: Running, candidate: Running) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "serving.cli", "embeddings", "gate"]
    command += ["--reference", reference.url, "--candidate", candidate.url]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_gate_passes_this_lane_and_llama_cpp(
    ours: Running, reference: Running, llama: Running
) -> None:
    for candidate in (ours, llama):
        done = gate(reference, candidate)

        assert done.returncode == 0, done.stdout + done.stderr
        assert "passed" in done.stdout


@pytest.mark.parametrize(
    "way",
    [
        "mean",
        "mean-right",
        "right-naive",
        "first",
        "no-mask",
        "no-mask-no-positions",
        "no-terminal",
        "double-terminal",
        "prompted",
        "not-normalised",
        "cut-not-normalised",
        "backwards",
    ],
)
def test_the_gate_fails_what_has_the_right_shape_and_wrong_vectors(
    way: str, reference: Running, others: Running
) -> None:
    done = gate(reference, replace(others, way=f"/{way}"))

    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED" in done.stdout
    assert ("wrong order" in done.stdout) == (way == "backwards")
