"""Structures that methods look tokens up in; token ids only.

| structure | holds | answers |
|---|---|---|
| `ngrams.Occurrences` | the growing text | where each n-gram of up to N tokens occurred |
| `ngrams.Counts` | the growing text | how often each token followed n - 1 others |
| `interpolation.Interpolation` | `Counts` of text and corpus | the probability of a token |
| `suffix_automaton.SuffixAutomaton` | the growing text | where its longest suffix occurred |
| `suffix_tree.SuffixTree` | fixed documents, sorted | where the longest suffix of a text occurs |
| `corpus.Corpus` | fixed documents in a file | what followed these occurrences (a tree inside) |
| `predicted_output.Prediction` | the expected text | where in it the text is now |
| `lookahead_window.LookaheadWindow` | a window of guesses | phrases that Jacobi iteration finds |
| `phrase_pool.PhrasePool` (memory) | phrases by first token | the newest phrases of a token |
| `successors.Successors` (memory) | candidates by token | the likeliest next tokens of a token |
| `session_text.SessionText` (memory) | all texts of a session | the text for an automaton |
| `memory.Memories` (memory) | one memory per member | the memory of a member of a combination |

A memory lasts from one text to the next in a warm run. A new kind of memory is a subclass of
`memory.Memory` in a file of this package; `memory.kinds` finds it.
"""
