"""The real gateway over real sockets, in front of scripted engines."""
