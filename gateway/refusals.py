"""Why nobody serves a request, as the error that its client sees. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from gateway.config.config import Dialect
from gateway.errors import ContextTooLong, GatewayError, NothingServes, Saturated, UnsupportedRoute
from gateway.exchange import GroupFailed
from gateway.routing.facts import Decision, Full, NoCandidate
from gateway.routing.table import Group


def refusal(
    group: Group,
    why: NoCandidate | Full,
    dialect: Dialect,
    rests_s: Sequence[float],
    *,
    asked: bool,
) -> GatewayError | GroupFailed:
    """What to raise: GroupFailed where another group may serve, else the error for the client."""
    if isinstance(why, NoCandidate):
        error = nobody(group, why.decision, dialect, rests_s)
        return GroupFailed(error, overflow=why.decision.too_long)
    full = saturated(group, why.opens_in_s, Random())  # noqa: S311 -- jitter is no secret
    return full if asked and group.rule.on_saturation == "reject" else GroupFailed(full)


def saturated(group: Group, opens_in_s: float, random: Random) -> Saturated:
    """Every deployment is at its cap: come back when a window opens, else in 1 to 5 s."""
    wait = opens_in_s if 0 < opens_in_s < math.inf else random.uniform(1.0, 5.0)
    return Saturated(
        f"'{group.name}' is at its cap: try again later", retry_after_s=max(1, math.ceil(wait))
    )


def nobody(
    group: Group, decision: Decision, dialect: Dialect, rests_s: Sequence[float]
) -> GatewayError:
    """No deployment may serve: the prompt is too long, none speaks the dialect, or all rest."""
    if decision.too_long:
        return ContextTooLong(f"the prompt is longer than the context window of '{group.name}'")
    if not any(dialect in m.relays or dialect in m.bridges for m in group.members):
        return UnsupportedRoute(f"no deployment of '{group.name}' serves {dialect} requests")
    if not rests_s:
        reasons = sorted({reason for _, reason in decision.left_out})
        return NothingServes(f"'{group.name}' cannot serve: {', '.join(reasons)}")
    return NothingServes(
        f"every deployment of '{group.name}' rests after failures: try again later",
        retry_after_s=max(1, math.ceil(min(rests_s))),
    )
