"""Recipes: how to launch one model with one engine, as files; read strictly, with places."""
