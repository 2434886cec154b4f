"""The slot of the embedded node: the control plane as a child, and two small recipes to swap.

The control plane leaves its engine running when it ends, as it must on a real machine. Here the
node asks it to empty the slot first, so that Ctrl-C leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from serving.embedded.child import Child
from serving.embedded.probe import EndedError, NotReadyError, until_200

READY_WITHIN_S: Final = 20.0
EMPTY_WITHIN_S: Final = 15.0
STOP_GRACE_S: Final = 5.0
_PAUSE_S: Final = 0.1
RECIPES: Final = ("small-one", "small-two")
MODEL_NAME: Final = "embedded.gguf"  # as the two recipes name it


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """One control plane under care. `said` gets a line for people when it cannot serve."""

    model: Path
    port: int
    key: str = field(repr=False)
    run_dir: Path
    said: Callable[[str], None]

    @property
    def url(self) -> str:
        """Where the gateway and `serving slot` find it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Where its own lines go."""
        return self.run_dir / "slot.log"

    def write(self) -> Path:
        """The slot file of this run, and the model under the name that the recipes have for it."""
        models = (self.run_dir / "models").absolute()
        models.mkdir(parents=True, exist_ok=True)
        link = models / MODEL_NAME
        link.unlink(missing_ok=True)
        link.symlink_to(self.model)
        file = self.run_dir / "slot.yaml"
        file.write_text(
            "# Made by `make run`; serving/slot/slot.example.yaml explains each line.\n"
            f"slot: gpu0\nlisten: 127.0.0.1:{self.port}\nkey: os.environ/SLOT_KEY\n"
            f"enabled: [{', '.join(RECIPES)}]\nrun: {json.dumps(str(self.run_dir))}\n"
            "rules: {min_residency_s: 2, drain_s: 30, adopted_grace_s: 3}\n"
            f'host: {{models: {json.dumps(str(models))}, docker: ""}}\n',
            encoding="utf-8",
        )
        return file

    async def serve(self) -> None:
        """Serve until cancelled, then empty the slot. It ends early only where it cannot serve."""
        command = [sys.executable, "-m", "serving.cli", "slot", "serve", "-c", str(self.write())]
        child = await Child.start(
            command, environ={**os.environ, "SLOT_KEY": self.key}, log=self.log
        )
        try:
            await until_200(f"{self.url}/health", child, within_s=READY_WITHIN_S)
            self.said(f"slot gpu0 is empty (process {child.pid}); models: {', '.join(RECIPES)}")
            await child.wait()
            self.said(f"no slot: its control plane ended, see {self.log}")
        except (EndedError, NotReadyError):
            self.said(f"no slot: its control plane does not serve, see {self.log}")
        finally:
            await self._empty(child)
            await child.stop(grace_s=STOP_GRACE_S)

    async def _empty(self, child: Child) -> None:
        """Ask for an empty slot and wait for it, while anybody is there to ask."""
        try:
            async with asyncio.timeout(EMPTY_WITHIN_S), self._asks() as asks:
                if child.running:
                    await asks.post("/api/slot/down", json={"force": True})
                while child.running and await _holds(asks):  # noqa: ASYNC110 -- another process
                    await asyncio.sleep(_PAUSE_S)
        except (TimeoutError, httpx.HTTPError) as error:
            self.said(f"the slot may not be empty ({type(error).__name__}): see {self.log}")

    def _asks(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.key}"},
            trust_env=False,
            timeout=5.0,
        )


async def _holds(asks: httpx.AsyncClient) -> bool:
    status: dict[str, Any] = (await asks.get("/api/slot/status?lite=1")).json()
    return status["phase"] not in ("stopped", "failed")
