"""What peers say of themselves and what casts ask for. Pure: no state, no messages, no chance."""
