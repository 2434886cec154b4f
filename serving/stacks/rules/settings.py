"""Settings of one engine that must fit each other: graphs, state slots, host cache, draft steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from common.problems import Problem
from serving.stacks.launch import Launch
from serving.stacks.part import Part, Rule
from serving.stacks.words import whole

# Exactly one size each: a batch size without a graph runs without one.
_EXACT: Final = ("--cuda-graph-bs-decode",)
# Padded to the next size in the list; only what lies above the last one runs without.
_PADDED: Final = ("--cuda-graph-bs", "--cudagraph-capture-sizes", "--cuda-graph-sizes")
_STATES_A_REQUEST: Final = 5  # its state, and what each draft step leaves
_RELEASE: Final = re.compile(r":[^@]*\d+\.\d+|@sha256:")


def decode_graphs(part: Part) -> Iterator[Problem]:
    """A list of decode graphs that ends below the request cap, or leaves sizes out."""
    launch = part.launch
    if launch is None:
        return
    exact, padded = launch.words.all(*_EXACT), launch.words.all(*_PADDED)
    listed = exact or padded
    if not listed:
        return
    flag = next(f for f in (*_EXACT, *_PADDED) if launch.words.has(f))
    sizes = {n for word in listed for n in _numbers(word)}
    if launch.requests is None:
        said = (
            f"{flag} lists sizes up to {max(sizes, default=0)}, and no cap says how many requests"
        )
        said += f" run at once: write {launch.engine.requests[0]}"
        yield part.service.problem("request-cap", said, "command")
        return
    yield from _missing(part, launch, flag, sizes)
    largest = max(sizes, default=0)
    sparse = sorted(set(range(1, largest)) - sizes)
    if not exact and launch.engine.name == "sglang" and sparse and not _pinned(part):
        said = f"{flag} leaves out {_few(sparse)}, which holds only where the release pads to the"
        said += " next size: pin the image's release, or list every size"
        yield part.service.problem("graph-sparse", said, "command")


def _missing(part: Part, launch: Launch, flag: str, sizes: set[int]) -> Iterator[Problem]:
    cap = launch.requests or 0
    wanted = set(range(1, cap + 1)) if flag in _EXACT else {cap}
    missing = sorted(wanted - sizes)
    if missing and (flag in _EXACT or max(sizes, default=0) < cap):
        said = f"{flag} has no graph for {_few(missing)}, and {launch.engine.requests[0]} lets"
        said += f" {cap} requests run: those batches run without a graph; list them"
        yield part.service.problem("graph-list", said, "command")


def _numbers(word: str) -> Iterator[int]:
    return (int(n) for n in re.findall(r"\d+", word))


def _few(numbers: list[int]) -> str:
    shown = ", ".join(str(n) for n in numbers[:8])
    return shown if len(numbers) <= 8 else f"{shown} and {len(numbers) - 8} more"


def _pinned(part: Part) -> bool:
    return bool(_RELEASE.search(str(part.service.data.get("image") or "")))


def graph_limit(part: Part) -> Iterator[Problem]:
    """The other way to say how far graphs reach."""
    launch = part.launch
    limit = launch.words.number("--cuda-graph-max-bs") if launch else None
    if launch and limit is not None and launch.requests and limit < launch.requests:
        said = f"--cuda-graph-max-bs {limit} is below {launch.engine.requests[0]}"
        said += f" {launch.requests}: larger batches run without a graph"
        yield part.service.problem("graph-list", said, "command")


def mamba_slots(part: Part) -> Iterator[Problem]:
    """Each running request holds its state and one for each draft step."""
    launch = part.launch
    if launch is None or launch.engine.name != "sglang":
        return
    slots, cap = launch.words.number("--max-mamba-cache-size"), launch.requests
    if slots is not None and cap is not None and slots < cap * _STATES_A_REQUEST:
        said = f"--max-mamba-cache-size {slots} is below {_STATES_A_REQUEST} for each of {cap}"
        said += f" requests: the engine would lower its cap to {slots // _STATES_A_REQUEST}; write"
        said += f" {cap * _STATES_A_REQUEST} or more"
        yield part.service.problem("mamba-slots", said, "command")


def host_cache(part: Part) -> Iterator[Problem]:
    """A hierarchical cache whose host tier takes a share of memory that nobody wrote down."""
    launch = part.launch
    if launch is None or launch.engine.name != "sglang":
        return
    size = launch.words.number("--hicache-size")
    if launch.words.has("--enable-hierarchical-cache") and not size:
        by_ratio = launch.words.first("--hicache-ratio")
        how = f"by --hicache-ratio {by_ratio}" if by_ratio else "by a ratio of the GPU's"
        said = f"the host tier of the cache is sized {how}: write --hicache-size, in GB a rank"
        yield part.service.problem("host-cache", said, "command")
    elif size and not launch.words.has("--enable-hierarchical-cache"):
        said = f"--hicache-size {size} without --enable-hierarchical-cache does nothing"
        yield part.service.problem("host-cache", said, "command")


def draft_tokens(part: Part) -> Iterator[Problem]:
    """With one candidate a step, a draft is as long as its steps, and one token more."""
    launch = part.launch
    if launch is None or launch.engine.name != "sglang":
        return
    steps = launch.words.number("--speculative-num-steps")
    tokens = launch.words.number("--speculative-num-draft-tokens")
    width = launch.words.first("--speculative-eagle-topk")
    if steps and tokens and whole(width) == 1 and tokens != steps + 1:
        said = f"--speculative-num-draft-tokens {tokens}, but {steps} steps with one candidate each"
        yield part.service.problem("draft-profile", f"{said} make {steps + 1}", "command")


RULES: Final[tuple[Rule, ...]] = (decode_graphs, graph_limit, mamba_slots, host_cache, draft_tokens)
