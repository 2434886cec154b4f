"""Engines as data, and one small file each: from a recipe and a machine to a start command."""
