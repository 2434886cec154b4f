"""Signalbox's routing gateway: one URL in front of a few GPUs."""
