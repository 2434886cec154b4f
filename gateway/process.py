"""`gateway serve` as a process: the file, the socket, signals, reload, drain.

SIGHUP, or a change of the file with --watch    reload: checked, then swapped whole
SIGTERM, SIGINT                                 not ready, drain, flush, exit 0
a second one                                    end at once
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from common import logs
from common.problems import Place, Problem, has_errors, render
from gateway.api.app import OPEN_ROUTES
from gateway.bridge import is_there
from gateway.config.load import Loaded, load, read_env_file
from gateway.config.overlaps import resolved_overlaps, unresolved
from gateway.inlet.inlet import Inlet
from gateway.records.lock import RecordsError
from gateway.restart import State, keep
from gateway.server import INFERENCE, Gateway, InsecureError

_log = structlog.get_logger("gateway")
_WATCH_S = 0.5
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says; `host` and `port` win over the file's `listen`."""

    config_path: str
    host: str | None = None
    port: int | None = None
    watch: bool = False
    insecure: bool = False
    env_file: str | None = None


async def serve(options: Options) -> int:
    """Serve until told to stop. Returns the exit code; what is wrong is said in one line."""
    logs.configure()
    # The writer of records runs beside the loop: its turns are short, and so must the wait be.
    sys.setswitchinterval(0.001)
    loaded = await asyncio.to_thread(_load, options)
    if loaded.problems:
        print(render(loaded.problems), file=sys.stderr)  # noqa: T201
    if loaded.config is None:
        return 1
    config = loaded.config
    host = options.host or config.host
    port = config.port if options.port is None else options.port
    try:
        gateway = Gateway(config, insecure=options.insecure)
        if gateway.relay.serving.keys.is_open and host not in _LOOPBACK:
            return _stop(f"--insecure serves on loopback only, not on {host}: set a key")
        sock = _listen(host, port)
        await gateway.start()
    except (InsecureError, RecordsError) as wrong:
        return _stop(str(wrong))
    except OSError as wrong:
        return _stop(
            f"cannot listen on {host}:{port}: {wrong.strerror}; stop what holds it, or choose "
            "another with --port or gateway_settings.listen"
        )
    await _run(gateway, options, sock)
    return 0


def _stop(message: str) -> int:
    print(f"gateway: {message}", file=sys.stderr)  # noqa: T201
    return 1


def _load(options: Options) -> Loaded:
    environ = dict(os.environ)
    if options.env_file is not None:
        try:
            environ |= read_env_file(options.env_file)
        except (OSError, ValueError) as wrong:  # gone, or no NAME=value lines
            return Loaded(None, (_problem(options.env_file, "env-file", str(wrong)),))
    loaded = load(options.config_path, environ)
    if loaded.config is None:
        return loaded
    more = (
        *resolved_overlaps(loaded.config, _addresses),
        *unresolved(loaded.config, _addresses),
    )
    return Loaded(loaded.config, (*loaded.problems, *more))


def _problem(path: str, code: str, message: str) -> Problem:
    return Problem(Place(path, 1, 1), "error", code, message)


def _addresses(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return sorted({str(entry[4][0]) for entry in found})


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def _spare_the_collector() -> None:
    """What is built by now stays: the collector need not walk it again and again under load."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def _run(gateway: Gateway, options: Options, sock: socket.socket) -> None:
    inlet = Inlet(gateway.serve, gateway.pages, INFERENCE, outbox=gateway.outbox)
    with _signals() as told:
        await inlet.open(sock)
        _spare_the_collector()
        _say_hello(gateway, sock)
        run = Path(gateway.config.activity.path).parent
        _note(run, options, sock)
        watcher = asyncio.create_task(_watch(options, told)) if options.watch else None
        while await told.get() == "reload":
            await _reload(gateway, options)
        if watcher is not None:
            watcher.cancel()
        await _drain(gateway, inlet, told)


def _note(run: Path, options: Options, sock: socket.socket) -> None:
    """Note how this process was started, and keep the file: `gateway restart` reads both."""
    given = {"--host": options.host, "--port": options.port, "--env-file": options.env_file}
    arguments = [word for name, v in given.items() if v is not None for word in (name, str(v))]
    arguments += [f"--{n}" for n in ("watch", "insecure") if getattr(options, n)]
    State(
        pid=os.getpid(),
        url=_url(sock),
        folder=str(Path.cwd()),
        config=options.config_path,
        arguments=tuple(arguments),
    ).write(run)
    keep(run, options.config_path)


async def _drain(gateway: Gateway, inlet: Inlet, told: asyncio.Queue[str]) -> None:
    """Each step is bounded: nothing new, what runs, connections, files."""
    _log.info("drain", running=len(gateway.relay.running), limit_s=gateway.config.drain_s)
    inlet.draining = True
    drained = asyncio.create_task(gateway.drain())
    again = asyncio.create_task(_stop_again(told))
    await asyncio.wait((drained, again), return_when=asyncio.FIRST_COMPLETED)
    for task in (drained, again):
        task.cancel()
    await inlet.close()
    await gateway.stop()
    _log.info("stopped", records_lost=gateway.records_lost)


async def _stop_again(told: asyncio.Queue[str]) -> None:
    while await told.get() == "reload":
        pass  # nobody reloads what is stopping


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Queue[str]]:
    """Signals as words in a queue: "reload" and "stop"."""
    loop, told = asyncio.get_running_loop(), asyncio.Queue[str]()
    words = {signal.SIGHUP: "reload", signal.SIGTERM: "stop", signal.SIGINT: "stop"}
    for number, word in words.items():
        loop.add_signal_handler(number, told.put_nowait, word)
    try:
        yield told
    finally:
        for number in words:
            loop.remove_signal_handler(number)


async def _watch(options: Options, told: asyncio.Queue[str]) -> None:
    """Ask for a reload whenever the file, or its env file, has changed and then rested."""
    paths = [p for p in (options.config_path, options.env_file) if p is not None]
    known = seen = [_stamp(path) for path in paths]
    while True:
        await asyncio.sleep(_WATCH_S)
        now = [_stamp(path) for path in paths]
        if now == seen != known:
            known = now
            told.put_nowait("reload")
        seen = now


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


async def _reload(gateway: Gateway, options: Options) -> None:
    loaded = await asyncio.to_thread(_load, options)
    if loaded.config is None or has_errors(loaded.problems):
        _rejected(gateway, loaded.problems)
        return
    try:
        restart = gateway.swap(loaded.config)
    except InsecureError as wrong:
        _rejected(gateway, (_problem(options.config_path, "no-key", str(wrong)),))
        return
    gateway.metrics.reloaded("ok")
    keep(Path(gateway.config.activity.path).parent, options.config_path)
    _log.info("config_loaded", revision=gateway.relay.serving.revision)
    if restart:
        _log.warning("restart_needed", keys=list(restart))


def _rejected(gateway: Gateway, problems: tuple[Problem, ...]) -> None:
    gateway.reject(problems)
    for problem in problems:
        if problem.severity == "error":
            _log.error("config_rejected", problem=str(problem))


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say_hello(gateway: Gateway, sock: socket.socket) -> None:
    _log.info(
        "serving",
        url=f"{_url(sock)}/v1",
        revision=gateway.relay.serving.revision,
        open_routes=list(OPEN_ROUTES),
    )
    bridged = sorted({d.id for d in gateway.config.deployments if not d.relays and d.bridges})
    if bridged and not is_there():
        _log.warning("needs_the_bridge", deployments=bridged, why="litellm is not installed")
    if gateway.relay.serving.keys.is_open:
        _log.warning("insecure", why="no key in the file: anybody on this machine is served")
