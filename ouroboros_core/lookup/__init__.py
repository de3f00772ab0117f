"""What methods learn with: phrases, windows, automata, corpora, counts; token ids only."""
