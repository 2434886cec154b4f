"""A restart that survives its caller, looks after the new process, and takes itself back.

    1  check the file with the serving process's own environment     errors: nothing is touched
    2  SIGTERM the serving process and wait until it has drained
    3  start it again and poll /health/live
    4  not live in time: its log is kept, and the last file that served is served again

`serve` notes in its run folder (that of the activity log) how it was started, and keeps a copy of
each file that it served. `python -m gateway.restart RUN` is the detached part; `gateway restart`
starts it in a session of its own and shows what it says.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

STATE, KNOWN_GOOD, LOG = "gateway.json", "known-good.yaml", "restart.log"
_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How the serving process was started: enough to start it again."""

    pid: int
    url: str
    folder: str  # its working directory
    config: str
    arguments: tuple[str, ...]  # of `gateway serve`, without the file

    def write(self, run: Path) -> None:
        """Note it in the run folder, whole or not at all."""
        run.mkdir(parents=True, exist_ok=True)
        draft = run / f"{STATE}.new"
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(run / STATE)

    @classmethod
    def read(cls, run: Path) -> State:
        """The state in a run folder; FileNotFoundError if nothing serves from there."""
        data = json.loads((run / STATE).read_text())
        return cls(**{**data, "arguments": tuple(data["arguments"])})


def keep(run: Path, config: str) -> None:
    """Keep a copy of a file that serves well now."""
    with contextlib.suppress(OSError):  # a full disk: the restart then has nothing to go back to
        shutil.copyfile(config, run / KNOWN_GOOD)


def main(arguments: list[str]) -> int:
    """The detached part: RUN CONFIG WAIT_S PATIENCE_S. Exit 0: the new file serves."""
    run, config, wait_s, patience_s = arguments
    return _Restart(Path(run), config, float(wait_s), float(patience_s)).go()


class _Restart:
    def __init__(self, run: Path, config: str, wait_s: float, patience_s: float) -> None:
        self.run, self.wait_s, self.patience_s = run, wait_s, patience_s
        self.state = State.read(run)
        self.config = config or self.state.config
        self.environ = _environ_of(self.state.pid)

    def go(self) -> int:
        if not self._checked():
            _say(f"{self.config} has errors: nothing was touched")
            return 1
        self._stop_old()
        if self._live(self._start(self.config, "gateway.log"), "the new one"):
            _say(f"live: {self.config}")
            return 0
        good = self.run / KNOWN_GOOD
        if not good.exists():
            _say("there is no earlier file to go back to: nothing serves")
            return 1
        _say(f"going back to the last file that served ({good}); the failed one's log is kept")
        if self._live(self._start(str(good), "gateway.log"), "the earlier one"):
            replace(State.read(self.run), config=self.config).write(self.run)
            _say(f"live again with the earlier file; {self.config} was not taken over")
        return 1

    def _checked(self) -> bool:
        command = [sys.executable, "-m", "gateway.cli", "check", self.config]
        if "--env-file" in self.state.arguments:
            at = self.state.arguments.index("--env-file")
            command += self.state.arguments[at : at + 2]
        return (
            subprocess.run(command, env=self.environ, cwd=self.state.folder, check=False).returncode
            == 0
        )

    def _stop_old(self) -> None:
        _say(f"stopping {self.state.pid}, which may drain for up to {self.patience_s:g} s")
        for patience_s in (self.patience_s, 5.0):  # the second SIGTERM ends it at once
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.state.pid, signal.SIGTERM)
            ends = time.monotonic() + patience_s
            while _runs(self.state.pid) and time.monotonic() < ends:
                time.sleep(_POLL_S)  # it is no child of ours: nobody tells of its end

    def _start(self, config: str, log: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "gateway.cli", "serve", "-c", config]
        with (self.run / log).open("ab") as out:
            return subprocess.Popen(
                [*command, *self.state.arguments],
                env=self.environ,
                cwd=self.state.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        address = urlsplit(self.state.url)
        asked = HTTPConnection(address.hostname or "", address.port, timeout=2)
        with contextlib.closing(asked):
            asked.request("GET", "/health/live")
            return asked.getresponse().status == 200

    def _live(self, process: subprocess.Popen[bytes], which: str) -> bool:
        ends = time.monotonic() + self.wait_s
        while time.monotonic() < ends:
            if process.poll() is not None:
                _say(f"{which} ended with code {process.returncode}: see {self.run}/gateway.log")
                return False
            with contextlib.suppress(OSError):
                if self._answers() and State.read(self.run).pid == process.pid:
                    return True
            time.sleep(_POLL_S)  # between two looks at its health
        _say(f"{which} was not live within {self.wait_s:g} s: see {self.run}/gateway.log")
        process.kill()
        process.wait()
        return False


def _environ_of(pid: int) -> dict[str, str]:
    """The environment that the serving process was given: the caller's shell lacks its keys."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
