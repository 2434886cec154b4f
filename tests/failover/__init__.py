"""Sixteen upstream faults and what a caller must get out of each: see the folder's scenarios.py."""
