"""Choose: from a group to its deployments in order, each with its reason.

Pure. The relay asks again whenever something changed: a permit came back, a rest ended.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from random import Random

from gateway.config.config import Deployment
from gateway.routing.facts import Candidate, Decision, RequestFacts
from gateway.routing.health import Health
from gateway.routing.table import Group


def candidates(
    group: Group,
    facts: RequestFacts,
    *,
    health: Health,
    now: float,
    random: Random,
    bridge: bool,
    early: bool = False,
) -> Decision:
    """Who of a group may serve, best first.

    1. Left out, each with its reason: who does not speak the dialect, who needs a bridge that is
       not there, whose window even the low estimate exceeds, and who rests.
    2. The rest by `order`, then by weight without replacement (or, with affinity, by the caller).
    `early` asks for the one resting deployment that may be tried before its time.
    """
    chosen: list[tuple[int, float, int, Candidate]] = []  # the third: no two are equal
    left_out: list[tuple[Deployment, str]] = []
    windows, caller = 0, facts.callers.get(group.name)
    for member, share in zip(group.members, group.shares, strict=True):
        if facts.dialect not in member.relays and not (bridge and facts.dialect in member.bridges):
            speaks = facts.dialect in member.bridges
            left_out.append((member, "needs the bridge" if speaks else f"no {facts.dialect}"))
        elif member.max_input_tokens is not None and facts.prompt_tokens > member.max_input_tokens:
            windows += 1
            left_out.append((member, f"prompt above its window of {member.max_input_tokens}"))
        elif (rests := health.rests(member.id, now)) is not None and not early:
            left_out.append((member, f"rests for {rests:.1f} s" if rests else "being tried"))
        elif early and not (rests is not None and health.may_try_early(member.id)):
            left_out.append((member, "not to be tried early"))
        elif early:
            chosen.append((0, rests or 0.0, len(chosen), Candidate(member, "early trial")))
        else:
            drawn = _draw(member, caller, random)
            chosen.append((member.order, drawn, len(chosen), Candidate(member, share)))
    chosen.sort()
    too_long = windows > 0 and windows == len(left_out) and not chosen
    return Decision(
        tuple([c[3] for c in chosen[: 1 if early else None]]), tuple(left_out), too_long
    )


def _draw(member: Deployment, caller: str | None, random: Random) -> float:
    """A draw whose smallest value falls on each member in proportion to its weight.

    Exponential draws sorted upwards are sampling by weight without replacement (Efraimidis and
    Spirakis, 2006). With affinity the draw is the caller's own hash (rendezvous hashing), so a
    caller stays where it was while that member is well.
    """
    if caller is None:
        uniform = random.random()
    else:
        digest = blake2b(f"{caller}\0{member.id}".encode(), digest_size=7).digest()
        uniform = int.from_bytes(digest, "big") / 2**56
    return -math.log(1.0 - uniform) / (member.weight or 1.0)
