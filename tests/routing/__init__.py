"""The choosers, limits, health, plan and line: pure, so tried with anything."""
