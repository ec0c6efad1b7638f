"""Trials: campaigns of change, hostile schedules, attacks by liars, and the set-ups of the papers."""
