"""The cells of the matrix: dialect, streamed or not, alias or direct name, relayed or bridged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Route = Literal["relayed", "bridged"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to ask. `bridged`: the engine speaks chat alone, and the dialect is translated."""

    dialect: str
    streamed: bool
    alias: bool = False
    route: Route = "relayed"

    @property
    def name(self) -> str:
        """As it stands in tables and model names."""
        words = [self.dialect, "streamed" if self.streamed else "whole"]
        words += ["alias"] * self.alias + ["bridged"] * (self.route == "bridged")
        return "-".join(words)

    @property
    def apis(self) -> list[str]:
        """The APIs of the engines behind it."""
        return ["chat"] if self.route == "bridged" else [self.dialect]

    @property
    def spoken(self) -> str:
        """The dialect that its engines are asked in."""
        return "chat" if self.route == "bridged" else self.dialect


RELAYED = tuple(
    Cell(dialect, streamed, alias)
    for dialect in ("chat", "completions", "messages", "responses")
    for streamed in (True, False)
    for alias in (False, True)
)
BRIDGED = tuple(
    Cell(dialect, streamed, route="bridged")
    for dialect in ("messages", "responses")
    for streamed in (True, False)
)
CELLS = RELAYED + BRIDGED
THE_CALL = Cell("chat", True)  # the one that the scenarios describe
