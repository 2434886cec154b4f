"""The relay's HTTP client against raw servers on real sockets."""
