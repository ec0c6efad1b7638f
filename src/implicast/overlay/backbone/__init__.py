"""The brokers' backbone: a spanning tree, and for each neighbour a filter of what lies beyond it."""
