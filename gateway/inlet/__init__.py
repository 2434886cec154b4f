"""The HTTP/1.1 server that clients talk to, over asyncio and httptools' parser."""
