"""The stacks against the routing: each local deployment has the engine that the file says."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.problems import Problem
from serving.stacks import words
from serving.stacks.codes import problem
from serving.stacks.part import Part
from serving.stacks.ports import ANY, on_host
from serving.stacks.routing import Deployment, Routing
from serving.stacks.rules.together import apart

LANE_TOKENS: Final = 4096  # of the query lane where no flag says; a test reads it there
_HOUSE: Final = (".local", ".lan", ".internal", ".home.arpa")  # names that no public DNS answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A deployment, and the service that answers at its address."""

    deployment: Deployment
    part: Part


def held_against(
    parts: Sequence[Part], routing: Routing, variables: Mapping[str, str]
) -> Iterator[Problem]:
    """Every way in which the stacks and the routing differ. `variables` are the gateway's."""
    matches: list[Match] = []
    for deployment in routing.deployments:
        found = [part for part in parts if _answers(part, deployment)]
        matches += [Match(deployment=deployment, part=part) for part in found]
        if not found and _in_house(deployment.host):
            said = f"deployment '{deployment.id}' is at {deployment.host}:{deployment.port}, and no"
            said += " service publishes that address and port"
            yield problem(deployment.place, "no-service", said)
    for match in matches:
        for rule in RULES:
            yield from rule(match)
        yield from _key(match, variables)
    yield from _interactive_gpus(parts, matches)


def _answers(part: Part, deployment: Deployment) -> bool:
    """True if the service listens at the deployment's address, as far as can be told from here."""
    if not part.serves:
        return False
    names = {part.service.name, str(part.service.data.get("container_name") or "")}
    if deployment.host in names:  # inside compose's own network a service's name is its address
        return part.launch is None or not part.launch.known or part.launch.port == deployment.port
    if on_host(part.service):
        return part.launch is not None and part.launch.port == deployment.port
    return any(
        port.published == deployment.port and _same_host(port.host, deployment.host)
        for port in part.ports
    )


def _same_host(published: str, asked: str) -> bool:
    """A name cannot be compared with an address without asking the network: the port decides."""
    if published in ANY or _address(published) is None or _address(asked) is None:
        return published in ANY or published == asked or _address(asked) is None
    return _address(published) == _address(asked)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address("127.0.0.1" if text == "localhost" else text)
    except ValueError:
        return None


def _in_house(host: str) -> bool:
    address = _address(host)
    if address is not None:
        return address.is_private or address.is_loopback or address.is_link_local
    return "." not in host or host.endswith(_HOUSE)


def served_name(match: Match) -> Iterator[Problem]:
    """The name that the gateway asks for is one that the engine answers to."""
    launch, wanted = match.part.launch, match.deployment.served_name
    if launch is None or not launch.served or wanted in launch.served:
        return
    said = f"it serves {', '.join(launch.served)}, and deployment '{match.deployment.id}' asks for"
    said += f" {wanted}"
    if launch.engine.any_name:
        code, said = "served-name-differs", f"{said}: this engine answers, but records will differ"
    else:
        code, said = "served-name", f"{said}: the engine answers 404"
    yield match.part.service.problem(code, said, "command")


def engine(match: Match) -> Iterator[Problem]:
    """What an engine speaks itself depends on which it is."""
    launch, told = match.part.launch, match.deployment.engine
    if launch and told and told != launch.engine.name:
        said = f"it starts {launch.engine.name}, and deployment '{match.deployment.id}' says"
        yield match.part.service.problem("engine-differs", f"{said} engine: {told}", "command")


def context(match: Match) -> Iterator[Problem]:
    """The gateway sends what fits max_input_tokens: the engine must take it."""
    launch, wanted = match.part.launch, match.deployment.max_input_tokens
    if launch and wanted and launch.context is not None and launch.context < wanted:
        said = f"it takes {launch.context} tokens a request, and deployment '{match.deployment.id}'"
        said += f" promises max_input_tokens {wanted}"
        if launch.engine.name == "llama.cpp" and (launch.requests or 1) > 1:
            said += f" (llama.cpp divides --ctx-size by --parallel {launch.requests})"
        yield match.part.service.problem("context-length", said, "command")


def query_lane(match: Match) -> Iterator[Problem]:
    """This project's own lane, by its flags: the name it serves, and the longest text it takes."""
    if not match.part.query_lane:
        return
    service, wanted = match.part.service, match.deployment
    flags = words.of_service(service.data)
    name, tokens = flags.first("--served-name"), flags.number("--max-tokens")
    if name and name != wanted.served_name:
        said = f"it serves {name}, and deployment '{wanted.id}' asks for {wanted.served_name}: 404"
        yield service.problem("served-name", said, "command")
    if not flags.has("--max-tokens"):
        tokens = LANE_TOKENS
    if tokens and wanted.max_input_tokens and tokens < wanted.max_input_tokens:
        said = f"it takes {tokens} tokens a text (--max-tokens), and deployment '{wanted.id}'"
        said += f" promises max_input_tokens {wanted.max_input_tokens}"
        yield service.problem("context-length", said, "command")


def on_demand(match: Match) -> Iterator[Problem]:
    """Where a person waits, the engine is there; documents can wait until it is started."""
    service, lane = match.part.service, match.deployment.lane
    if service.on_demand and "interactive" in match.deployment.tiers:
        said = f"a profile keeps it off, and interactive deployment '{match.deployment.id}' needs"
        yield service.problem("tier-on-demand", f"{said} it: leave `profiles` out", "profiles")
    if service.on_demand and lane == "query":
        said = "the query lane must always run: leave `profiles` out"
        yield service.problem("tier-on-demand", said, "profiles")
    if not service.on_demand and lane == "ingest" and match.part.gpus:
        said = "the ingest lane holds GPU memory all day: put it under a profile of its own"
        yield service.problem("lane-on-demand", said)


def _key(match: Match, variables: Mapping[str, str]) -> Iterator[Problem]:
    """One secret under two names in two files: what the engine asks for, what the gateway sends."""
    launch, service, deployment = match.part.launch, match.part.service, match.deployment
    if launch is None:
        return
    asked = launch.key(service)
    sent = variables.get(deployment.key_variable or "")
    name = launch.engine.key_variable
    if asked is not None and not deployment.keyed:
        said = f"it asks for a key, and deployment '{deployment.id}' has no api_key: every call"
        yield service.problem("key-needed", f"{said} is a 401")
    elif asked is None and deployment.keyed and launch.engine.key_flags:
        said = f"deployment '{deployment.id}' sends a key ({deployment.key_variable}), and nothing"
        said += f" here asks for one: set {name or launch.engine.key_flags[0]}"
        yield service.problem("key-missing", said)
    elif asked and sent and asked != sent:
        said = f"its key is not what {deployment.key_variable} holds for '{deployment.id}':"
        yield service.problem("key-differs", f"{said} they are one secret under two names")


def _interactive_gpus(parts: Sequence[Part], matches: Sequence[Match]) -> Iterator[Problem]:
    """GPUs that a person waits on are used by nothing else, not even on demand."""
    waited: dict[str, Part] = {}
    for match in matches:
        if "interactive" in match.deployment.tiers:
            waited[f"{match.part.service.file}:{match.part.service.name}"] = match.part
    for mine in waited.values():
        for other in parts:
            both = mine.gpu_ids & other.gpu_ids
            if other is not mine and both and not apart(mine, other):
                said = f"GPU {', '.join(sorted(both))} belongs to service '{mine.service.name}'"
                said += f" ({mine.service.place()}), which people wait on"
                yield other.service.problem("interactive-gpu", said, *other.gpus[0].path)


RULES: Final[tuple[Callable[[Match], Iterator[Problem]], ...]] = (
    served_name,
    engine,
    context,
    query_lane,
    on_demand,
)
