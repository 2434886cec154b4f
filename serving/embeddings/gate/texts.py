"""The texts that both servers are asked for: fixed, so that two runs can be compared.

What each is there for: lengths that differ by two orders of magnitude within one batch (padding),
a single character and a single word (the terminal token is nearly all there is), languages and
scripts (the tokenizer), code and numbers, white space at the ends (raw text is not trimmed), pairs
that differ in order only (pooling over words hides that), and a prompt as clients send it.
"""

from __future__ import annotations

from dataclasses import dataclass

_STATION = (
    "The signal box stands at the south end of the station. From its window the signaller sees "
    "both platforms, the goods loop and the junction, and sets each route by pulling levers in the "
    "order that the interlocking allows. "
)


@dataclass(frozen=True, slots=True)
class Text:
    """One text, with a name for the table."""

    name: str
    text: str


TEXTS = (
    Text("long", _STATION * 4),  # about 170 tokens: within the shortest limit of usual models
    Text("one character", "a"),
    Text("one word", "Hello"),
    Text("question", "How does a train get permission to enter an occupied block?"),
    Text("passage", _STATION),
    Text("dog bites man", "The dog bit the man in the park."),
    Text("man bites dog", "The man bit the dog in the park."),
    Text("not", "The route is not free."),
    Text("German", "Wann fährt der nächste Zug nach Köln, und von welchem Gleis?"),
    Text("French", "L'aiguilleur a fermé le signal avant l'arrivée du rapide."),
    Text("Russian", "Поезд отправляется с третьего пути через десять минут."),  # noqa: RUF001 - Russian
    Text("Chinese", "列车将在十分钟后从三号站台发车。"),
    Text("Arabic", "يغادر القطار من الرصيف الثالث."),
    Text("emoji", "All clear 🚦🚆 — go!"),
    Text("code", "def fib(n: int) -> int:\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"),
    Text("JSON", '{"signal": "S17", "aspect": ["red", "amber"], "locked": true}'),
    Text("numbers", "3.14159 2,718 0x1F 10^-9 2026-08-31T07:45:00Z"),
    Text("white space", "  two spaces before, a line break after\n"),
    Text(
        "prompt",
        "Instruct: Find the rule that answers the question\nQuery:may two trains share a block?",
    ),
)
