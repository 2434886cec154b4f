"""An engine that answers well most of the time, and in each known wrong way at times."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.engine_answers import Answer, Pause, Reset, Send, Silence, chunk, error
from tests.engine_says import Say, event
from tests.engine_wire import Received

WORDS = tuple(f"word{n} " for n in range(24))
EXPECTED = "".join(WORDS)
_WELL = Say(words=WORDS)


def well(received: Received) -> Answer:
    """The whole answer."""
    return _WELL(received)


def flaky(random: Random, share: float) -> Callable[[Received], Answer]:
    """Answers of which `share` go wrong."""

    def answer(received: Received) -> Answer:
        whole = _WELL(received)
        if random.random() >= share:
            return whole
        at = random.randrange(1, len(whole))
        said = b"the engine broke"
        wrong: list[Answer] = [
            error(503),
            error(500, retry_after="0"),
            error(429),
            error(400),
            (Reset(),),
            (*whole[:at], Reset()),
            (*whole[:at], Silence()),
            (*whole[:at], Pause(random.random() / 5), *whole[at:]),
            (Send(b"no HTTP at all\r\n\r\n"), Reset()),
        ]
        if received.streams:
            broken = event({"error": {"message": said.decode(), "type": "x", "code": 500}})
            garbled = chunk(b'data: {"choices": [{"delta"\n\n')
            wrong += [
                (*whole[:at], Send(chunk(broken)), *whole[-2:]),
                (*whole[:at], Send(garbled), *whole[at:]),
            ]
        return random.choice(wrong)

    return answer
