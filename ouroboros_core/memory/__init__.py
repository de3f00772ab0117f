"""What methods learn with: phrase pools and lookahead windows, over token ids only."""
