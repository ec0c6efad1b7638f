"""The deterministic world: it carries messages between peers, keeps time, and writes the journal."""
