"""Coverage-guided fuzzing, run by hand; what it found stands in the suite as tests."""
