"""The embedded engines of `make run`: two small llama.cpp servers, and the gateway before them.

A program of its own: it meets the gateway over HTTP and in files, as an operator's engines do.
Start reading at `__main__.py`.
"""
