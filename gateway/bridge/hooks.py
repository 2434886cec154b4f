"""`python -m gateway.bridge.hooks CONFIG NAME ...`: the process that calls LiteLLM callbacks.

One line on standard input is one request that is over; standard output says what became of the
calls. Each callback has a thread with a loop and a queue of its own, so that one that blocks
delays no other. It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import queue
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gateway.bridge import payload
from gateway.bridge.answered import answered, failed
from gateway.bridge.loggers import Told
from gateway.bridge.payload import Event

MAX_WAITING = 1024  # events of one callback
AT_ONCE = 16  # calls of one callback
CALL_S = 30.0  # longest call
_FINISH_S = 3.0
_TELL_S = 0.2


class Tally:
    """Calls that are over, over all threads; what it is told goes to the gateway."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._lock = out, threading.Lock()
        self._called = self._lost = 0
        self._told = (0, 0)

    def over(self, *, lost: bool = False, problem: str | None = None) -> None:
        """One call is over."""
        with self._lock:
            self._called += 1
            self._lost += lost
        if problem is not None:
            self.tell(problem)

    def tell(self, problem: str | None = None) -> None:
        """Say how it stands, if that is news."""
        with self._lock:
            now = (self._called, self._lost)
            if now == self._told and problem is None:
                return
            self._told = now
            self._out.write(msgspec.json.encode(Told(*now, problem)) + b"\n")
            self._out.flush()


class Callback:
    """One callback in a thread of its own."""

    def __init__(self, name: str, config_path: str, tally: Tally) -> None:
        self._name, self._config_path, self._tally = name, config_path, tally
        self._queue: queue.Queue[Event | None] = queue.Queue(MAX_WAITING)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def give(self, event: Event) -> None:
        """Hand over an event; without room its call is lost."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._tally.over(lost=True)

    def finish(self) -> None:
        """No more events. Waits for room."""
        self._queue.put(None)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            # Inside a loop, as the stock proxy loads them: some start tasks of their own.
            logger = load(self._name, self._config_path)
        except Exception as error:  # noqa: BLE001 -- other people's code: any of it may fail
            self._tally.tell(f"{self._name} cannot be imported: {type(error).__name__}: {error}")
            logger = None
        room, running = asyncio.Semaphore(AT_ONCE), set[asyncio.Task[None]]()
        while (event := await asyncio.to_thread(self._queue.get)) is not None:
            if logger is None:
                self._tally.over(lost=True)
                continue
            await room.acquire()
            task = asyncio.create_task(self._call(logger, event))
            running.add(task)
            task.add_done_callback(running.discard)
            task.add_done_callback(lambda _: room.release())
        if running:
            await asyncio.wait(running, timeout=_FINISH_S)

    async def _call(self, logger: Any, event: Event) -> None:
        """Every hook that this event is for."""
        try:
            async with asyncio.timeout(CALL_S):
                for hook in hooks(logger, event):
                    await hook
        except TimeoutError:
            self._tally.over(lost=True, problem=f"{self._name} took more than {CALL_S:g} s")
        except Exception as error:  # noqa: BLE001 -- other people's code: any of it may fail
            # Its kind alone: a message may quote what the hook was given.
            self._tally.over(lost=True, problem=f"{self._name} raised {type(error).__name__}")
        else:
            self._tally.over()


def hooks(logger: Any, event: Event) -> Iterator[Coroutine[Any, Any, Any]]:
    """The calls that LiteLLM would make for this request, in its order, by keyword."""
    record = event.record
    begin, _, end = payload.times(record)
    messages, response = answered(event)
    dumped = response.model_dump() if hasattr(response, "model_dump") else response
    said = payload.kwargs(event, messages, dumped)
    when = {"start_time": payload.local(begin), "end_time": payload.local(end)}
    good = payload.succeeded(record)
    if not good:
        said["exception"] = failed(event)
        said["traceback_exception"] = ""
    if event.first_group not in (None, record.group):
        name = "log_success_fallback_event" if good else "log_failure_fallback_event"
        yield getattr(logger, name)(
            original_model_group=event.first_group,
            kwargs=said,
            original_exception=failed(event, first=True),
        )
    name = "async_log_success_event" if good else "async_log_failure_event"
    told = response if good else None
    yield getattr(logger, name)(kwargs=said, response_obj=told, **when)


def load(name: str, config_path: str) -> Any:
    """The object that NAME means, as LiteLLM finds it: next to the file first, else importable."""
    module_name, _, attribute = name.rpartition(".")
    folder = Path(config_path).absolute().parent
    beside = folder.joinpath(*module_name.split(".")).with_suffix(".py")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    if not beside.is_file():
        return getattr(importlib.import_module(module_name), attribute)
    spec = importlib.util.spec_from_file_location(module_name, beside)
    if spec is None or spec.loader is None:
        raise ImportError(f"{beside} cannot be read as a module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, attribute)


def main(arguments: list[str]) -> None:
    """Serve standard input until it ends."""
    config_path, *names = arguments
    # What the callbacks print must not be taken for what this process says.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tally = Tally(out)
    threading.Thread(target=_tell, args=(tally,), daemon=True).start()
    every = [Callback(name, config_path, tally) for name in names]
    decode = msgspec.json.Decoder(Event).decode
    for line in sys.stdin.buffer:
        event = decode(line)
        for one in every:
            one.give(event)
    deadline = time.monotonic() + _FINISH_S
    for one in every:
        threading.Thread(target=one.finish, daemon=True).start()  # a full queue blocks it
    for one in every:
        one.thread.join(max(0.0, deadline - time.monotonic()))
    tally.tell()
    os._exit(0)  # a callback that blocks must not keep us


def _tell(tally: Tally) -> None:
    while True:
        time.sleep(_TELL_S)  # a thread of its own, with nothing else to do
        tally.tell()


if __name__ == "__main__":
    main(sys.argv[1:])
