"""SPICE on a living surface: registries and casts through joins, leaves, crashes, loss and partitions."""
