"""Activity log, usage counters and metrics: what happened, once per request."""
