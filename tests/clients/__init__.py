"""Real client libraries against the real gateway in front of a real llama.cpp server."""
