"""Trials: fault campaigns, hostile ring schedules, attacks by liars, papers' experiments."""
