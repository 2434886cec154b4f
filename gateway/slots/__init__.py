"""Requests on a slot that holds one recipe at a time. Start reading at attempt.py."""
