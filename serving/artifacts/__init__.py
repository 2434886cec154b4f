"""What a download must be, and whether it is."""
