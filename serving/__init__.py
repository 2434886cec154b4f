"""Engines, recipes, the slot, hosts, embeddings: what stands behind the gateway."""
