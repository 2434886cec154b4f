"""A turn: one request's way from its route to an answer. Steps 3 to 7.

groups, as plan.py orders them            each once
  candidates, as choose.py orders them    admission.py hands out a permit, or waits
    one attempt                           attempt.py sends, judge.py says what came back
      before the commit point             a failure goes on: next candidate, next group
      after it                            a failure is told to the client, and nothing follows
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway import refusals
from gateway.alarm import Alarm
from gateway.config.config import Deployment
from gateway.delivery import ClientStalled, Delivery
from gateway.errors import GatewayError
from gateway.exchange import (
    Answer,
    AttemptFailed,
    ErrorEvent,
    GroupFailed,
    Request,
    Serving,
    TimedOut,
    read_whole,
)
from gateway.judge import OK, EngineSaid, Verdict, gave_up, judge, judge_event, judge_failure
from gateway.relay.stream import EventStream
from gateway.rescue import Rescue, Through, carry_on
from gateway.routing.facts import Admitted, Full, NoCandidate, Wait
from gateway.routing.plan import MAX_PAUSE_S, Plan, pause_s
from gateway.routing.table import Group, Stage
from gateway.sse import Scanner
from gateway.trace import Trace

if TYPE_CHECKING:
    from gateway.relay.app import Relay


class Turn:
    """One request on its way. `serve` returns when its answer is out, or raises GatewayError."""

    def __init__(
        self, relay: Relay, serving: Serving, request: Request, delivery: Delivery, trace: Trace
    ) -> None:
        self.relay, self.admission, self.config = relay, relay.admission, serving.config
        self.request, self.delivery, self.trace = request, delivery, trace
        self.groups, self.wait = serving.table.groups, trace.wait
        self.rescue = Rescue.of(request, serving.config, trace.route)
        self.through: Through = self.rescue.note if self.rescue is not None else bytes

    async def serve(self, plan: Plan) -> None:
        """Try the groups, each once, until one serves; else raise what the first one said."""
        first: GatewayError | None = None
        while stage := plan.next():
            try:
                return await self._in_group(stage, plan)
            except GroupFailed as failed:
                first = first or failed.error
                plan.failed(stage, overflow=failed.overflow)
            except EngineSaid as said:
                if await carry_on(self, said.verdict, stage, plan):
                    return None
                raise
        # Nowhere else to go:
        if not self.trace.attempts and (early := self.spare(*plan.tried, early=True)):
            verdict = await self.attempt(early, spare=False)
            first = None if verdict.kind == "ok" else EngineSaid(verdict)
        if first is not None:
            raise first
        return None

    def spare(self, *names: str, early: bool = False) -> Admitted | None:
        """A permit that is free now in one of the groups."""
        groups = [self.groups[name] for name in names]
        return self.admission.free(groups, self.request.facts, set(), early=early)

    async def _in_group(self, stage: Stage, plan: Plan) -> None:
        """Try a group's candidates, `num_retries` times more than once. Raises GroupFailed.

        1. Members not tried yet come first, without a pause.
        2. Then a tried one, after a pause: the engine's own Retry-After, or growing, with jitter.
        3. Never one that ran into its limit, refused our key or gave no lease, and none that rests.
        """
        group, retries = self.groups[stage.group], self.config.num_retries
        tried, barred = set[str](), set[str]()
        admitted = await self._first(group, stage)
        while True:
            deployment = admitted.permit.deployment
            tried.add(deployment.id)
            spare = self.request.stream and (
                (retries > 0 and len(tried) < len(group.members)) or plan.has_more(stage)
            )
            verdict = await self.attempt(admitted, spare=spare)
            if verdict.kind == "ok":
                return
            if verdict.kind == "client":
                raise EngineSaid(verdict)
            if verdict.kind in ("timeout", "operator", "slot"):
                barred.add(deployment.id)
            again = None
            if retries > 0 and verdict.kind != "overflow":
                pause = pause_s(self.config.num_retries - retries, self.admission.random)
                again = await self._again(group, verdict, tried, barred, pause)
            if again is None:
                raise gave_up(verdict)
            admitted, retries = again, retries - 1

    async def _again(
        self, group: Group, verdict: Verdict, tried: set[str], barred: set[str], pause: float
    ) -> Admitted | None:
        """A permit for another attempt in the group, or None; see _in_group for the cases."""
        facts = self.request.facts
        if (other := self.admission.free([group], facts, tried)) is not None:  # 1.
            return other
        if verdict.kind == "throttled":  # 2. by its own word
            pause = verdict.retry_after_s or 0.0
        elif not self.admission.anybody(group, facts, barred):  # 3.
            return None
        if pause > MAX_PAUSE_S:
            return None
        await asyncio.sleep(pause)
        try:
            return await self.admission.admit(group, facts, barred, self.wait)
        except (NoCandidate, Full):
            return None

    async def _first(self, group: Group, stage: Stage) -> Admitted:
        """The first permit in a group. Raises GroupFailed, or Saturated where the file says so."""
        wait = Wait(0.0) if stage.hops else self.wait  # a saturated fallback group is skipped
        try:
            return await self.admission.admit(group, self.request.facts, frozenset(), wait)
        except (NoCandidate, Full) as why:
            rests, dialect = self.admission.rests(group), self.request.dialect
            raise refusals.refusal(group, why, dialect, rests, asked=not stage.hops) from None

    async def attempt(self, admitted: Admitted, *, spare: bool) -> Verdict:
        """One attempt; its permit is back and health told when it ends.

        A failure before the commit point is returned; one after it is raised as EngineSaid.
        """
        deployment, trace = admitted.permit.deployment, self.trace
        started, outcome = self.admission.clock(), "cancelled"
        trace.attempting(deployment)
        try:
            if deployment.slot is None:
                verdict = await self.ask(admitted, deployment, spare=spare)
            else:
                verdict = await self.relay.slots.attempt(self, admitted, spare=spare)
            outcome = verdict.outcome
            self.admission.told(admitted, verdict)
        finally:
            trace.attempted(deployment, outcome, self.admission.clock() - started)
            self.admission.give_back(admitted, trace.used_tokens())
        if verdict.kind != "ok" and self.delivery.committed:
            raise EngineSaid(verdict)
        self.delivery.drop_held()
        return verdict

    async def ask(self, admitted: Admitted, deployment: Deployment, *, spare: bool) -> Verdict:
        """Send, and pass on what comes. OK once the whole answer is out."""
        request = self.request
        answer: Answer | None = None
        try:
            with self.relay.alarms.of(self.trace.task) as alarm:
                alarm.set(deployment.first_s(stream=request.stream), TimedOut)
                answer = await self.relay.sender.send(request, deployment)
                if not 200 <= answer.status < 300:
                    body = await read_whole(answer, limit=1024 * 1024)
                    now = self.relay.wall()
                    return judge(answer.status, answer.headers, body, request.dialect, now)
                kind = next((v for k, v in answer.headers if k == b"content-type"), b"")
                if kind.startswith(b"text/event-stream"):
                    await self._stream(answer, admitted, alarm, spare)
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

    async def _stream(self, answer: Answer, admitted: Admitted, alarm: Alarm, spare: bool) -> None:
        request, config, trace = self.request, self.config, self.trace
        scanner = Scanner(request.dialect, drop_usage=not request.wants_usage)

        def on_content() -> None:
            trace.first_content = trace.first_content or self.admission.clock()
            self.admission.told(admitted, OK)

        events = EventStream(
            answer=answer,
            delivery=self.delivery,
            scanner=scanner,
            idle_s=admitted.permit.deployment.stream_idle_timeout_s,
            hold_s=config.hold_s,
            write_s=config.client_write_timeout_s,
            on_content=on_content,
            through=self.through,
        )
        try:
            await events.pass_on(alarm, spare=spare)
        finally:
            if self.delivery.committed:  # else the attempt reached nobody and costs nothing
                trace.status = 200
                trace.saw(scanner, 2 * request.facts.prompt_tokens)

    async def _whole(self, answer: Answer, alarm: Alarm, content_type: bytes) -> None:
        body = await self.trace.whole(answer, content_type)
        alarm.set(self.config.client_write_timeout_s, ClientStalled)
        await self.delivery.whole(answer.status, [(b"content-type", content_type)], body)
