"""Trials: campaigns of change, hostile schedules, liars and their attacks, and the set-ups of the papers."""
