"""Tables and JSON on stdout: for eyes on a terminal, plain and stable for everything else."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

Row = Sequence[str]


def print_table(heads: Row, rows: Sequence[Row]) -> None:
    """A table: drawn on a terminal, plain columns for `grep` and `cut` elsewhere."""
    if sys.stdout.isatty():
        _for_eyes(heads, rows)
    else:
        print(plain(heads, rows))


def print_json(data: Any) -> None:
    """Data as JSON, indented, in the order given."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def plain(heads: Row, rows: Sequence[Row]) -> str:
    """Columns as wide as their widest cell, two blanks between, none at the end of a line."""
    table = [[head.upper() for head in heads], *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def _for_eyes(heads: Row, rows: Sequence[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for i, head in enumerate(heads):
        # In a narrow window the later columns give way, by words.
        table.add_column(head, overflow="fold", no_wrap=i == 0)
    for row in rows:
        # Text, not markup: a model's name may hold brackets.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
