"""Pure geometry and hashing: no state, no messages."""
