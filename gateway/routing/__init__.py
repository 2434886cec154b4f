"""Routing: pure functions over an immutable table. No I/O, no clock, no asyncio, no log."""
