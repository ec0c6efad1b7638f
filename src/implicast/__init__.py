"""Address a message to a description, not to a list."""
