"""Members that lie, as part of a scenario: who they are, what they do, and what the honest get in spite of them."""
