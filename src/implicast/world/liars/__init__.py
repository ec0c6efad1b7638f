"""Byzantine members ("liars") as part of a scenario: their number, their strategies, and delivery
among honest members.
"""
