"""The hot path. Start reading at app.py."""
