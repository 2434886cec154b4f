"""Exit codes, wrong input, and what a command must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Gateway

ENV = ("--env-file", "node.env")


def edit(node: Path, before: str, after: str) -> None:
    """Change the node's config.yaml once."""
    file = node / "config.yaml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


def test_check_is_0_for_a_good_file_and_1_with_every_problem_for_a_bad_one(
    gateway: Gateway, node: Path
) -> None:
    assert gateway("check", "config.yaml", *ENV).code == 0

    edit(node, "      rpm: 4\n", "")
    ran = gateway("check", "config.yaml", *ENV)

    assert ran.code == 1
    assert "error[unbounded-overflow]" in ran.out
    assert "config.yaml: 1 error" in ran.out


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("unknown",),
        ("check",),
        ("explain",),
        ("explain", "--task", "a", "--model", "b"),
        ("explain", "--model", "x", "--dialect", "morse"),
        ("explain", "--model", "x", "--prompt-tokens", "-1"),
        ("serve", "--port", "99999"),
        ("activity", "--window", "1w"),
        ("diff",),
    ],
)
def test_wrong_arguments_are_2(gateway: Gateway, args: tuple[str, ...]) -> None:
    ran = gateway(*args)

    assert ran.code == 2
    assert "usage: gateway" in ran.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("check", "missing.yaml"), "there is no file missing.yaml"),
        (("check", "."), ". is a directory"),
        (("routes", "-c", "missing.yaml"), "there is no file missing.yaml"),
        (("routes", "--env-file", "missing.env"), "cannot read the env file missing.env"),
        (("explain", "--task", "x", "-c", "missing.yaml"), "there is no file missing.yaml"),
        (("diff", "config.yaml", "missing.yaml", *ENV), "'missing.yaml' is neither a file"),
        (("usage", "-c", "missing.yaml"), "there is no file missing.yaml"),
        (("activity", "-c", "."), ". is a directory"),
        (("serve", "-c", "missing.yaml"), "there is no file missing.yaml"),
        (("serve", "--env-file", "missing.env"), "cannot read the env file missing.env"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_that_says_what_to_do(
    gateway: Gateway, args: tuple[str, ...], said: str
) -> None:
    ran = gateway(*args)

    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith(f"gateway: {said}")
    assert ran.err.count("\n") == 1


def test_a_broken_env_file_is_named_with_its_line_and_without_its_text(
    gateway: Gateway, node: Path
) -> None:
    (node / "broken.env").write_text("A=1\nsk-oh-no\n")

    ran = gateway("routes", "--env-file", "broken.env")

    assert ran.code == 1
    assert "broken.env:2" in ran.err
    assert "sk-oh-no" not in ran.err


def test_routes_of_a_bad_file_tells_its_errors_and_prints_no_table(
    gateway: Gateway, node: Path
) -> None:
    edit(node, "      rpm: 4\n", "")

    ran = gateway("routes", *ENV)

    assert (ran.code, ran.out) == (1, "")
    assert "error[unbounded-overflow]" in ran.err


def test_without_the_variables_the_proof_is_said_to_be_conditional(gateway: Gateway) -> None:
    ran = gateway("routes", "--no-env")

    assert ran.code == 0
    assert "only if they differ" in ran.err
    assert "PRIMARY_API_BASE" in ran.out


def test_explain_tells_what_a_key_may_not_use(gateway: Gateway) -> None:
    assert gateway("explain", *ENV, "--key", "jobs", "--task", "title").code == 0

    refused = gateway("explain", *ENV, "--key", "jobs", "--model", "primary-chat")
    unknown = gateway("explain", *ENV, "--key", "nobody", "--model", "primary-chat")

    assert (refused.code, unknown.code) == (1, 1)
    assert "key 'jobs' does not open 'primary-chat'" in refused.err
    assert "keys in the file: web, jobs, master" in unknown.err


def test_explain_names_the_tasks_there_are_and_near_names(gateway: Gateway) -> None:
    task = gateway("explain", *ENV, "--task", "titel")
    model = gateway("explain", *ENV, "--model", "primary-chta")

    assert (task.code, model.code) == (1, 1)
    assert "review, title" in task.err
    assert "primary-chat" in model.err


def test_explain_is_1_where_nobody_can_serve(gateway: Gateway) -> None:
    ran = gateway("explain", *ENV, "--model", "primary-chat", "--dialect", "rerank")

    assert ran.code == 1
    assert "nobody can serve this request" in ran.out


def test_diff_of_git_revisions_of_one_file(gateway: Gateway, node: Path) -> None:
    git(node, "init", "-q")
    git(node, "add", "config.yaml")
    git(node, "commit", "-q", "-m", "first")
    edit(node, "rpm: 4\n", "rpm: 6\n")
    git(node, "commit", "-q", "-a", "-m", "second")
    edit(node, "rpm: 6\n", "rpm: 9\n")

    both = gateway("diff", "HEAD~1", "HEAD", *ENV)
    path = gateway("diff", "HEAD~1:config.yaml", "HEAD:config.yaml", *ENV)
    disk = gateway("diff", "HEAD", *ENV)
    same = gateway("diff", "HEAD", "HEAD", *ENV)

    assert both.out == path.out
    last = both.out.splitlines()[-1]
    assert last.split() == ["deployments", "background-llm@gpu-1:8000/glm", "rpm", "4", "6"]
    assert disk.out.splitlines()[-1].split()[-2:] == ["6", "9"]
    assert (same.code, same.out) == (0, "no difference\n")


def test_diff_with_a_revision_that_has_errors_is_1_and_says_where(
    gateway: Gateway, node: Path
) -> None:
    git(node, "init", "-q")
    edit(node, "      rpm: 4\n", "")
    git(node, "add", "config.yaml")
    git(node, "commit", "-q", "-m", "bad")

    ran = gateway("diff", "HEAD", "config.yaml", *ENV)

    assert ran.code == 1
    assert "HEAD:config.yaml:" in ran.err
    assert "unbounded-overflow" in ran.err


def test_diff_outside_a_repository_says_so_in_one_line(gateway: Gateway) -> None:
    ran = gateway("diff", "HEAD~1", "HEAD", *ENV)

    assert ran.code == 1
    assert "neither a file here nor a git revision" in ran.err
    assert ran.err.count("\n") == 1


def git(folder: Path, *args: str) -> None:
    """Run git with an author of its own."""
    author = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    subprocess.run(["git", "-C", str(folder), *author, *args], check=True, capture_output=True)


@pytest.mark.parametrize(
    "args",
    [
        ("check", "config.yaml"),
        ("routes",),
        ("explain", "--task", "title"),
        ("diff", "config.yaml", "config.yaml"),
    ],
)
def test_a_command_that_only_reads_imports_no_server_and_no_litellm(
    node: Path, args: tuple[str, ...]
) -> None:
    code = (
        "import sys; from gateway.cli import main; main(sys.argv[1:]);"
        "heavy = {'litellm', 'uvicorn', 'starlette', 'aiohttp', 'httpx', 'rich', 'uvloop'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    root = Path(__file__).parents[2]

    done = subprocess.run(
        [sys.executable, "-c", code, *args, "--env-file", str(node / "node.env")],
        cwd=node,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_runs_as_a_program_and_its_help_names_every_command(node: Path) -> None:
    root = Path(__file__).parents[2]

    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "--help"],
        cwd=node,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0
    for command in ("serve", "check", "routes", "explain", "diff", "usage", "activity"):
        assert f"    {command} " in done.stdout


def test_a_reader_that_has_gone_is_no_error(node: Path) -> None:
    root = Path(__file__).parents[2]

    pipe = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "routes", "--env-file", "node.env"],
        cwd=node,
        env={"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with pipe:
        assert pipe.stdout is not None
        assert pipe.stderr is not None
        pipe.stdout.close()
        err = pipe.stderr.read()

    assert (pipe.returncode, err) == (0, b"")
