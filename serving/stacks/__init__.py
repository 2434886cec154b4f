"""Compose files: read with their places, checked, and held against the routing file."""
