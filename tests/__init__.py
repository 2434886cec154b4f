"""The tests, and what they share: the scripted engine, the harness and its strict client."""
