"""What a node shows of itself: journal, record, log, metrics, snapshots. Above `identity`."""
