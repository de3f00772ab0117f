"""Token trees: pictures of masks, merging, depths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ouroboros_core.rules.match import verify
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder, chain, truncate

GUESS = Provenance(Source.DRAFT)
COPY = Provenance(Source.COPY)


def picture(tree: TokenTree) -> list[str]:
    """The mask among the tree's rows: # where a row sees a column."""
    return ["".join("#" if seen else "." for seen in row) for row in tree.ancestors]


def test_a_chain_is_causal() -> None:
    assert picture(chain(7, [1, 2, 3], GUESS)) == ["#...", "##..", "###.", "####"]


def test_branches_see_their_own_ancestors_only() -> None:
    builder = TreeBuilder(7)
    builder.add_path([1, 2], 0, GUESS)
    builder.add_path([3, 4], 0, GUESS)
    assert picture(builder.build()) == ["#....", "##...", "###..", "#..#.", "#..##"]


def test_the_verify_mask_of_ouroboros_is_a_chain_with_suffixes_at_its_tip() -> None:
    """Section 1.5 of the reference: draft rows causal; a suffix sees the draft and its own earlier
    tokens."""
    builder = TreeBuilder(0)
    tip = builder.add_path([10, 11], 0, GUESS)[-1]
    for suffix in ([20, 21], [30, 31]):
        builder.add_path(suffix, tip, Provenance(Source.SUFFIX, Learned.LOOKAHEAD, 0))
    tree = builder.build()
    chain_of_draft = ["#......", "##.....", "###...."]
    assert picture(tree) == [*chain_of_draft, "####...", "#####..", "###..#.", "###..##"]
    assert tree.depths == (0, 1, 2, 3, 4, 3, 4), "all suffixes stand at the same positions"


def test_equal_prefixes_are_merged_and_keep_the_first_provenance() -> None:
    builder = TreeBuilder(0)
    assert builder.add_path([1, 2, 3], 0, Provenance(Source.SUFFIX, Learned.HISTORY)) == [1, 2, 3]
    assert builder.add_path([1, 2, 4], 0, Provenance(Source.SUFFIX, Learned.LOOKAHEAD)) == [1, 2, 4]
    tree = builder.build()
    assert tree.parents == (-1, 0, 1, 2, 2)
    assert [p.learned for p in tree.provenance[1:]] == [Learned.HISTORY] * 3 + [Learned.LOOKAHEAD]


def test_no_proposal_lies_deeper_than_allowed() -> None:
    builder = TreeBuilder(0, max_depth=2)
    assert len(builder.add_path([1, 2, 3, 4], 0, GUESS)) == 2
    assert max(builder.build().depths) == 2


def test_window_nodes_are_never_merged_accepted_or_kept() -> None:
    builder = TreeBuilder(0)
    builder.add(5, 0, GUESS)
    builder.add_window(6, 0, silent=True)
    tree = builder.build()
    assert tree.child(0, 5) == 1
    assert tree.child(0, 6) is None
    assert tree.proposals == range(1, 2)
    assert tree.without_window() == chain(0, [5], GUESS)


def test_verify_steps_down_while_the_choice_was_proposed() -> None:
    tree = chain(0, [1, 2, 3], GUESS)
    said = {0: 1, 1: 2, 2: 9, 3: 4}
    assert verify(tree, said.__getitem__) == ((1, 2), 9)
    said[2] = 3
    assert verify(tree, said.__getitem__) == ((1, 2, 3), 4)


def test_a_step_ends_at_the_first_stop_token_and_at_the_budget() -> None:
    tree = chain(0, [1, 2, 3], GUESS)
    assert truncate(tree, (1, 2, 3), 4, {2, 3}, 10) == ((1, 2), None)
    assert truncate(tree, (1, 2, 3), 4, set(), 2) == ((1, 2), None)
    assert truncate(tree, (1, 2, 3), 4, {4}, 4) == ((1, 2, 3), 4)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=8))
def test_a_tree_is_the_trie_of_its_paths(paths: list[list[int]]) -> None:
    builder = TreeBuilder(9)
    ends = [builder.add_path(path, 0, GUESS) for path in paths]
    tree = builder.build()
    prefixes = {tuple(path[:n]) for path in paths for n in range(1, len(path) + 1)}
    assert len(tree) == 1 + len(prefixes)
    for path, nodes in zip(paths, ends, strict=True):
        assert [tree.tokens[n] for n in nodes] == path
        assert tree.path_to(nodes[-1]) == nodes
    for node in range(len(tree)):
        assert tree.ancestors[node].sum() == tree.depths[node] + 1


def test_grafted_trees_share_equal_prefixes_and_each_knows_where_its_nodes_went() -> None:
    """0 1 was there, one node is new, and the fourth would lie too deep."""
    q = np.array([0.5, 0.5])
    drafted, copied = TreeBuilder(1), TreeBuilder(1)
    for token, parent, law in ((0, 0, q), (1, 0, q), (1, 1, None)):
        drafted.add(token, parent, GUESS, law)
    copied.add_chain([(0, COPY), (1, COPY), (0, COPY), (1, COPY)])
    copied.add_window(9, 0, silent=True)
    builder = TreeBuilder(1, max_depth=3)
    first, second = (builder.graft(tree.build()) for tree in (drafted, copied))
    window = builder.graft_window(copied.build())
    after = builder.build()
    assert after.tokens == (1, 0, 1, 1, 0, 9)
    assert after.parents == (-1, 0, 0, 1, 3, 0)
    assert (first, second, window) == ((0, 1, 2, 3), (0, 1, 3, 4, None), (5,))
    assert after.silent == {5}
    assert after.provenance[4] is COPY
    assert [after.drawn_from(node) is q for node in range(5)] == [False, True, True, False, False]
    both, alone = ({origin.source for origin in after.origins(node)} for node in (3, 2))
    assert both == {GUESS.source, COPY.source} != alone
    stopped = TreeBuilder(1)
    stopped.add_chain([(0, COPY), (1, COPY), (0, COPY)], stop_tokens={1})
    assert stopped.build().tokens == (1, 0, 1)


def test_a_grafted_tree_may_be_one_that_others_were_grafted_into() -> None:
    builders = [TreeBuilder(1), TreeBuilder(1), TreeBuilder(1)]
    for builder, source in zip(builders, (Source.DRAFT, Source.COPY, Source.PHRASE), strict=True):
        builder.add_path([5, 6], 0, Provenance(source))
    first, second, third = builders
    second.graft(first.build())
    third.graft(second.build())
    for node in (1, 2):
        sources = [origin.source for origin in third.build().origins(node)]
        assert sorted(sources) == [Source.COPY, Source.DRAFT, Source.PHRASE], "each once"


def test_what_is_noted_later_does_not_show_in_a_tree_that_was_built_before() -> None:
    builder = TreeBuilder(root=1)
    node = builder.add(2, 0, Provenance(Source.DRAFT), np.array([0.5, 0.5]))
    assert node is not None
    first = builder.build()
    output = (object(), 0)
    builder.note_output(node, output)  # type: ignore[arg-type]
    assert first.draft_output(node) is None
    assert builder.build().draft_output(node) == output
