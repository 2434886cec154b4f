"""What stops a command of `serving`, as a tree.

ServingError
    Unusable        a file or a program that the command needs is not there, or says no; exit 1
    ModelError      there is no model to start with (artifacts/packaged.py); exit 1
"""

from __future__ import annotations


class ServingError(Exception):
    """Every error that a command of `serving` tells a person; the message says what to do."""


class Unusable(ServingError):
    """A file or a program that the command needs cannot be used."""
