"""Structures of token ids that methods learn from: phrases, windows, automata, corpora, counts."""
