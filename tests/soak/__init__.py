"""Load with faults, cancels and reloads for a long time: nothing wrong, nothing leaked."""
