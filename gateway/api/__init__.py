"""The gateway's own pages: models, health, metrics, activity, routes, config."""
