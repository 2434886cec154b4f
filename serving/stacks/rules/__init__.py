"""The rules: each takes values and yields problems, and none of them reads a file."""
