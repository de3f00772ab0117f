"""N-grams, the recycled tree and the followed prediction, each against what a person would do by
hand."""

import itertools
import math
import random

from ouroboros_core.lookup.ngrams import Counts, Occurrences, copied
from ouroboros_core.lookup.predicted_output import Prediction
from ouroboros_core.lookup.successors import Successors, grow, template


def test_earlier_occurrences_are_those_of_a_scan_the_longest_then_the_newest_first() -> None:
    rng = random.Random(4)
    for _ in range(300):
        text = [rng.randrange(3) for _ in range(rng.randrange(1, 30))]
        known = Occurrences(3)
        known.extend(text)
        wanted: list[tuple[int, int]] = []
        for n in range(min(3, len(text) - 1), 0, -1):
            for end in range(len(text) - 1, n - 1, -1):
                known_end = end in [e for _, e in wanted]
                if text[end - n : end] == text[len(text) - n :] and not known_end:
                    wanted.append((n, end))
        assert known.earlier(1, 99) == wanted
        assert known.earlier(2, 2) == [pair for pair in wanted if pair[0] >= 2][:2]


def test_the_most_frequent_follower_of_the_longest_known_context_is_taken() -> None:
    counts = Counts(3)
    counts.note_text([1, 2, 3, 1, 2, 4, 1, 2, 3])
    assert counts.likeliest([1, 2]) == (3, 2), "3 twice, 4 once"
    assert counts.likeliest([9, 2]) == (3, 1), "the pair is unknown, the 2 is not"
    assert counts.likeliest([9]) is None
    one = Counts(3, one_level=True)
    one.note_text([1, 2, 3])
    assert one.likeliest([1, 2]) == (3, 2)
    assert one.likeliest([9, 2]) is None, "one level has no shorter contexts"
    tie = Counts(2)
    tie.note_text([1, 5, 1, 4])
    assert tie.likeliest([1]) == (5, 1), "of equals the first seen"
    tie.note_text([1, 4, 1, 5])
    assert tie.likeliest([1]) == (4, 1), "both twice, the 4 first"
    pairs = Counts(4, shortest=2)
    pairs.note_text([1, 2, 3])
    assert pairs.likeliest([9, 1, 2]) == (3, 2)
    assert pairs.likeliest([9, 9, 2]) is None, "a single token is no context there"


def test_a_template_holds_the_paths_of_the_largest_products() -> None:
    chances = (0.5, 0.3, 0.1)
    shape = template(chances, 7, depth=3)
    paths: list[tuple[int, ...]] = []
    for rank, parent in shape:
        paths.append((*(paths[parent] if parent >= 0 else ()), rank))
    every = [path for n in (1, 2, 3) for path in itertools.product(range(3), repeat=n)]
    best = sorted((math.prod(chances[r] for r in path) for path in every), reverse=True)[:7]
    assert [math.prod(chances[r] for r in path) for path in paths] == best
    assert len(set(paths)) == 7


def test_the_recycled_tree_has_only_what_was_seen_and_the_newest_of_it() -> None:
    known = Successors(2)
    known.learn(1, [2, 3, 4])
    known.learn(2, [1, 1])
    known.learn(2, [5, 6])
    assert list(known.after(1)) == [2, 3]
    shape = [(0, -1), (1, -1), (0, 0), (1, 0), (0, 1)]
    assert grow(known, 1, shape) == [(2, -1, 0), (3, -1, 1), (5, 0, 0), (6, 0, 1)], (
        "nobody knows what follows 3"
    )
    assert grow(known, 9, shape) == []


def test_a_prediction_is_followed_through_an_insertion_a_deletion_and_another_word() -> None:
    expected = list(range(100, 160))
    follower = Prediction(expected, min_match=4)
    for text, following, why in (
        ([], (100, 101, 102), "believed at its beginning"),
        ([100, 101, 102], (103, 104), "followed"),
        ([7], (), "lost"),
        ([103], (104, 105), "an inserted word"),
        ([104, 8, 106], (107,), "another word"),
        ([110], (111,), "three words left out"),
    ):
        follower.extend(text)
        assert follower.expected(len(following) or 2) == following, why


def test_what_a_prediction_matched_is_counted_and_its_beginning_has_credit() -> None:
    follower = Prediction(range(100, 160), min_match=2)
    for text, counts in (([], (0, 8)), ([100, 101], (2, 10)), ([7], (0, 0)), ([102], (1, 1))):
        follower.extend(text)
        assert (follower.matched, follower.trust) == counts


def test_while_the_place_is_lost_it_does_not_wander() -> None:
    """A word that is everywhere pulls the position to and fro, but the distance is measured from
    where it was lost."""
    expected = [n if n % 40 else 9 for n in range(1000, 2000)]
    follower = Prediction(expected, min_match=5)
    follower.extend(expected[:10])
    for word in range(20):
        follower.extend([9, 5000 + word])
    follower.extend(expected[12:14])
    assert follower.expected(1) == (expected[14],)


def test_a_place_far_away_is_found_however_long_a_match_is_wanted() -> None:
    for min_match in (1, 3, 12, 32):
        expected = list(range(1000, 1400))
        follower = Prediction(expected, min_match)
        follower.extend(expected[:20])
        follower.extend(expected[200 : 200 + min_match])
        assert follower.expected(2) == tuple(expected[200 + min_match : 202 + min_match])


def test_a_copy_goes_on_with_itself_at_the_end_of_the_text() -> None:
    assert copied([1, 2, 1, 2, 1], 2, 5) == [(2, 1), (3, 2), (4, 1), (2, 1), (3, 2)]


def test_far_away_a_prediction_wants_a_longer_match() -> None:
    expected = [*range(100, 300), 5, 6, 7, 8, 9]
    follower = Prediction(expected, min_match=3)
    for token in (5, 6):
        follower.extend([token])
        assert follower.expected(1) == ()
    follower.extend([7])
    assert follower.expected(9) == (8, 9)
    follower.extend([8, 9])
    assert follower.expected(9) == (), "its end"
    assert Prediction([], min_match=3).expected(5) == ()
