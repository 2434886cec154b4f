"""A turn: one request's way from its route to an answer. Steps 3 to 7.

    groups, as table.after orders them        each once
      candidates, as choose orders them       admission.py hands out a permit, or waits
        one attempt                           attempt.py sends, judge.py says what came back
          before the commit point             a failure goes on: next candidate, next group
          after it                            a failure is told to the client, and nothing follows
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from gateway import refusals
from gateway.alarm import Alarm
from gateway.config.config import Deployment
from gateway.delivery import ClientStalled, Delivery
from gateway.dialects import ASKS_FOR_USAGE, read_body
from gateway.errors import GatewayError
from gateway.exchange import Answer, AttemptFailed, Broken, Request, TimedOut
from gateway.judge import OK, EngineSaid, Verdict, judge, judge_event, judge_failure
from gateway.relay.admission import Admitted, Full, NoCandidate
from gateway.relay.stream import ErrorEvent, Limits, stream
from gateway.routing.table import Group, Route, Stage, after
from gateway.sse import Scanner
from gateway.trace import Trace

if TYPE_CHECKING:
    from gateway.relay.app import Relay, Serving

_MAX_ERROR_BYTES = 1024 * 1024
_MAX_PAUSE_S = 5.0  # also the longest Retry-After that is waited out


class _Failed(Exception):
    """A group could not serve; `error` is what the client hears if nobody else can."""

    def __init__(self, error: GatewayError, *, overflow: bool = False) -> None:
        super().__init__(error.message)
        self.error, self.overflow = error, overflow


class Turn:
    """One request on its way. `serve` returns when its answer is out, or raises GatewayError."""

    def __init__(
        self, relay: Relay, serving: Serving, request: Request, route: Route, delivery: Delivery,
        trace: Trace,
    ) -> None:
        self.relay, self.admission, self.serving = relay, relay.admission, serving
        self.request, self.route, self.delivery, self.trace = request, route, delivery, trace
        self.wait_left_s = serving.table.groups[route.group].rule.max_wait_s
        self.stages = [Stage(route.group)]
        self.tried_groups: list[str] = []

    async def serve(self) -> None:
        """Try the groups, each once, until one serves; else raise what the first one said."""
        first: GatewayError | None = None
        while self.stages:
            stage = self.stages.pop(0)
            if stage.group in self.tried_groups:
                continue
            self.tried_groups.append(stage.group)
            try:
                return await self._in_group(stage)
            except _Failed as failed:
                first = first or failed.error
                self.stages[:0] = self._after(stage, overflow=failed.overflow)
        if not self.trace.attempts:
            await self._try_early()
        if first is not None and not self.delivery.ended:
            raise first

    async def _try_early(self) -> None:
        """Nobody else can serve: one deployment that rests is tried before its time."""
        for name in self.tried_groups:
            try:
                early = self.admission.try_now(
                    self.serving.table.groups[name], self.request.facts, frozenset(), early=True
                )
            except (NoCandidate, Full):
                continue
            verdict = await self._attempt(early, spare=False)
            if verdict.kind != "ok":
                raise EngineSaid(verdict)
            return

    def _after(self, stage: Stage, *, overflow: bool = False) -> list[Stage]:
        following = after(
            self.serving.table, self.route, stage, overflow=overflow,
            fallbacks=self.request.facts.fallbacks,
        )
        return [s for s in following if s.group not in self.tried_groups]

    async def _in_group(self, stage: Stage) -> None:
        """Try a group's candidates, `num_retries` times more than once. Raises _Failed.

        1. Members not tried yet come first, without a pause.
        2. Then a tried one, after a pause: the engine's own Retry-After, or growing, with jitter.
        3. Never one that ran into its limit or refused our key, and none that rests by our count.
        """
        group = self.serving.table.groups[stage.group]
        tried: set[str] = set()
        barred: set[str] = set()
        admitted = await self._admitted(group, stage)
        retries = self.serving.config.num_retries
        number = 0
        while True:
            others = len(tried) + 1 < len(group.members) and number < retries
            verdict = await self._attempt(
                admitted, spare=others or bool(self.stages or self._after(stage))
            )
            if verdict.kind == "ok":
                return
            if verdict.kind == "client":
                raise EngineSaid(verdict)
            deployment = admitted.permit.deployment
            tried.add(deployment.id)
            if verdict.kind in ("timeout", "operator"):
                barred.add(deployment.id)
            again = None
            if number < retries and verdict.kind != "overflow":
                again = await self._again(group, verdict, deployment, tried, barred, number)
            if again is None:
                raise _Failed(EngineSaid(verdict), overflow=verdict.kind == "overflow")
            admitted, number = again, number + 1

    async def _again(
        self, group: Group, verdict: Verdict, failed: Deployment, tried: set[str],
        barred: set[str], number: int,
    ) -> Admitted | None:
        """A permit for another attempt in the group, or None; see _in_group for the cases."""
        facts = self.request.facts
        try:
            return self.admission.try_now(group, facts, frozenset(tried))  # 1.
        except (NoCandidate, Full):
            pass
        if verdict.kind == "throttled" and failed.id not in barred:  # 2. by its own word
            pause = verdict.retry_after_s or 0.0
            if pause > _MAX_PAUSE_S:
                return None
        elif self.admission.anybody(group, facts, barred):  # 2. and 3.
            pause = min(0.5 * 2**number, _MAX_PAUSE_S) * self.admission.random.random()
        else:
            return None
        await asyncio.sleep(pause)
        try:
            return await self._wait(group, frozenset(barred))
        except (NoCandidate, Full):
            return None

    async def _admitted(self, group: Group, stage: Stage) -> Admitted:
        """The first permit in a group. Raises _Failed, or Saturated where the file says reject."""
        try:
            return await self._wait(group, frozenset())
        except NoCandidate as nobody:
            error = refusals.nobody(
                group, nobody.decision, self.request.dialect, self.admission.rests(group)
            )
            raise _Failed(error, overflow=nobody.decision.too_long) from None
        except Full as full:
            saturated = refusals.saturated(group, full.opens_in_s, self.admission.random)
            if stage.hops == 0 and group.rule.on_saturation == "reject":
                raise saturated from None
            raise _Failed(saturated) from None

    async def _wait(self, group: Group, without: frozenset[str]) -> Admitted:
        """A permit within what is left of the request's one waiting budget."""
        started = self.admission.clock()
        try:
            return await self.admission.admit(
                group, self.request.facts, without, min(self.wait_left_s, group.rule.max_wait_s)
            )
        finally:
            waited = self.admission.clock() - started
            self.wait_left_s -= waited
            self.trace.queued_s += waited

    async def _attempt(self, admitted: Admitted, *, spare: bool) -> Verdict:
        """One attempt, its permit given back and health told. After the commit point a failure
        raises EngineSaid; before it the client has seen nothing."""
        deployment, trace = admitted.permit.deployment, self.trace
        started, outcome = self.admission.clock(), "cancelled"
        trace.attempting(deployment)
        try:
            verdict = await self._verdict(admitted, spare=spare)
            outcome = verdict.outcome
            self.admission.told(admitted, verdict)
        finally:
            trace.attempted(deployment, outcome, self.admission.clock() - started)
            self.admission.give_back(admitted, trace.used_tokens())
        if verdict.kind != "ok" and self.delivery.committed:
            raise EngineSaid(verdict)
        self.delivery.drop_held()
        return verdict

    async def _verdict(self, admitted: Admitted, *, spare: bool) -> Verdict:
        """Send, and pass on what comes. OK once the whole answer is out."""
        deployment, request = admitted.permit.deployment, self.request
        relayed = request.dialect in deployment.relays
        sender = self.relay.relay if relayed or self.relay.bridge is None else self.relay.bridge
        first_s = deployment.timeout_s
        if request.stream and deployment.stream_timeout_s is not None:
            first_s = deployment.stream_timeout_s
        answer: Answer | None = None
        try:
            with Alarm() as alarm:
                alarm.set(first_s, TimedOut())
                answer = await sender.send(request, deployment)
                if not 200 <= answer.status < 300:
                    body = await _read_up_to(answer, _MAX_ERROR_BYTES)
                    return judge(
                        answer.status, answer.headers, body, request.dialect, self.relay.wall()
                    )
                kind = next((v for k, v in answer.headers if k == b"content-type"), b"")
                if kind.startswith(b"text/event-stream"):
                    await self._stream(answer, admitted, alarm, spare=spare)
                else:
                    await self._whole(answer, alarm, kind)
                return OK
        except ErrorEvent as event:
            return judge_event(event.data, request.dialect, self.relay.wall())
        except AttemptFailed as failed:
            return judge_failure(failed)
        finally:
            if answer is not None:
                answer.abort()

    async def _stream(
        self, answer: Answer, admitted: Admitted, alarm: Alarm, *, spare: bool
    ) -> None:
        request, config, trace = self.request, self.serving.config, self.trace
        hides_usage = request.dialect in ASKS_FOR_USAGE and not request.wants_usage
        scanner = Scanner(request.dialect, drop_usage=hides_usage)
        trace.status = 200

        def on_content() -> None:
            trace.first_content = self.admission.clock()
            self.admission.told(admitted, OK)

        limits = Limits(
            idle_s=admitted.permit.deployment.stream_idle_timeout_s,
            hold_s=config.hold_s,
            write_s=config.client_write_timeout_s,
        )
        try:
            await stream(
                answer, self.delivery, scanner, alarm, limits, spare=spare, on_content=on_content
            )
        finally:
            if self.delivery.committed:  # else the attempt reached nobody and costs nothing
                trace.saw(scanner, 2 * request.facts.prompt_tokens)

    async def _whole(self, answer: Answer, alarm: Alarm, content_type: bytes) -> None:
        body = await _read_up_to(answer, None)
        try:
            self.trace.usage = read_body(body)
        except msgspec.DecodeError:
            raise Broken("the answer is no JSON") from None
        if self.delivery.started:
            raise Broken("a heartbeat has begun a stream, and the answer is none")
        self.trace.status = answer.status
        alarm.set(self.serving.config.client_write_timeout_s, ClientStalled())
        headers = [(b"content-type", content_type)]
        await self.delivery.whole(answer.status, headers, body)


async def _read_up_to(answer: Answer, limit: int | None) -> bytes:
    """The whole body, or its first `limit` bytes and a little more."""
    parts, size = [], 0
    while data := await answer.read():
        parts.append(data)
        size += len(data)
        if limit is not None and size > limit:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)
