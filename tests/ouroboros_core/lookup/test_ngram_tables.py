"""The n-gram tables against searches by brute force over random texts, token after token."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from ouroboros_core.lookup.ngram_tables import (
    LAX,
    STRICT,
    WEAK_DRAFTS,
    Dominant,
    Found,
    Newest,
    NextTokens,
    Remembering,
    Rolling,
    Validated,
)
from tests.ouroboros_core.lookup.test_suffix_counts import occurrences


def texts(seed: int, count: int = 60) -> Iterator[tuple[random.Random, list[int]]]:
    rng = random.Random(seed)
    for _ in range(count):
        letters = rng.choice((1, 2, 3))
        yield rng, [rng.randrange(letters) for _ in range(rng.randrange(1, 40))]


def places(text: Sequence[int], n: int) -> list[int]:
    """Return the positions behind earlier occurrences of the last n tokens, the oldest first."""
    return occurrences(text[:-1], text[len(text) - n :])


def test_simple_copies_from_the_newest_place_with_enough_behind_it() -> None:
    for rng, text in texts(1):
        n, m = rng.randint(1, 3), rng.randint(1, 5)
        table = Newest(n, m)
        for end in range(1, len(text) + 1):
            table.extend(text[end - 1 : end])
            found = [p for p in places(text[:end], n) if end - p >= n] if end >= n else []
            if found:
                copy = text[found[-1] : min(end, found[-1] + m)]
                assert table.draft() == Found(copy, n, found[-1])
            else:
                assert not table.draft().tokens


def test_map_k_waits_for_enough_hits_and_follows_what_was_accepted_last() -> None:
    for rng, text in texts(2):
        n, m, hits = rng.randint(1, 3), rng.randint(1, 6), rng.randint(1, 3)
        table = Remembering(n, m, hits)
        limits: dict[tuple[int, ...], int] = {}
        for end in range(1, len(text) + 1):
            table.extend(text[end - 1 : end])
            key, found = tuple(text[:end][-n:]), places(text[:end], n) if end >= n else []
            expected: list[int] = []
            if len(found) >= hits:
                expected = text[found[-1] : min(end, found[-1] + limits.get(key, m))]
            draft = table.draft()
            assert list(draft.tokens) == expected
            accepted = rng.randint(0, len(expected))
            table.accepted(len(expected), accepted)
            if expected:
                limits[key] = m if accepted == len(expected) else accepted + 1


def test_map_k4v_drafts_only_a_continuation_that_dominates_the_others() -> None:
    drafted = silent = 0
    for rng, text in texts(3, 150):
        n, m = rng.randint(1, 2), rng.randint(1, 2)
        table = Dominant(n, m)
        for end in range(1, len(text) + 1):
            table.extend(text[end - 1 : end])
            found = [p for p in places(text[:end], n) if p + m <= end] if end >= n else []
            values = Counter(tuple(text[p : p + m]) for p in found)
            draft = tuple(table.draft().tokens)
            if len(values) > 4:
                continue  # some were dropped
            best = max(values.values(), default=0)
            if best and best >= 3 * (values.total() - best):
                assert values[draft] == best
                drafted += 1
            else:
                assert draft == ()
                silent += bool(values)
    assert drafted and silent


def test_of_five_continuations_the_rarest_makes_room() -> None:
    table = Dominant(1, 1)
    for value in (1, 1, 2, 3, 4, 5):
        table.extend((9, value))
    assert table._values[(9,)] == {(1,): 2, (3,): 1, (4,): 1, (5,): 1}


def test_mod_rolls_on_with_the_newest_next_tokens_and_makes_no_short_draft() -> None:
    for rng, text in texts(4):
        n, m = rng.randint(1, 3), rng.randint(2, 6)
        shortest = rng.randint(1, m)
        table = Rolling(n, m, shortest)
        for end in range(1, len(text) + 1):
            table.extend(text[end - 1 : end])
            rolled: list[int] = []
            while end >= n and len(rolled) < m:
                window = [*text[:end], *rolled][-n:]
                following = [text[p] for p in occurrences(text[: end - 1], window)]
                if not following:
                    break
                rolled.append(following[-1])
            assert list(table.draft().tokens) == (rolled if len(rolled) >= shortest else [])


def test_what_mod_drafts_up_to_the_border_of_two_texts_must_be_long_enough_by_itself() -> None:
    for shortest, expected in ((1, [4]), (2, [])):
        table = Rolling(1, 8, shortest)
        table.extend([1, 2, 3, 4, -1, 9, 3])
        assert list(table.draft().tokens) == expected


def test_mod_begins_anew_after_five_weak_drafts_in_a_row() -> None:
    table = Rolling(1, 4, 1)
    table.extend([1, 2, 1, 2, 1])
    for _ in range(WEAK_DRAFTS - 1):
        table.accepted(4, 0)
    assert table.draft().tokens
    table.accepted(4, 1)  # a quarter is not below a quarter
    table.accepted(4, 0)
    assert table.draft().tokens
    for _ in range(WEAK_DRAFTS - 1):
        table.accepted(8, 1)
    assert not table.draft().tokens


def passing(text: Sequence[int], window: list[int], strict: bool) -> int | None:
    """Return the most frequent next token that passes, by a search through the whole text."""
    threshold = STRICT if strict else LAX
    for n in range(min(4, len(window)), 0, -1):
        phrase = window[len(window) - n :]
        following = Counter(text[p] for p in occurrences(text[:-1], phrase))
        if following:
            token, times = following.most_common(1)[0]
            enough = times >= threshold.seen[n - 1]
            if enough and times / following.total() >= threshold.share[n - 1]:
                return token
    return None


def test_cache_asks_the_text_first_and_earlier_texts_with_a_stricter_threshold() -> None:
    from_earlier = 0
    for rng, text in texts(5, 80):
        m = rng.randint(1, 5)
        past = [rng.randrange(3) for _ in range(40)]
        earlier = NextTokens()
        earlier.extend(past)
        table = Validated(m, earlier)
        for end in range(1, len(text) + 1):
            table.extend(text[end - 1 : end])
            rolled: list[int] = []
            while len(rolled) < m:
                window = [*text[:end], *rolled][-4:]
                token = passing(text[:end], window, strict=False)
                if token is None:
                    token = passing(past, window, strict=True)
                    from_earlier += token is not None
                if token is None:
                    break
                rolled.append(token)
            assert list(table.draft().tokens) == rolled
    assert from_earlier


def test_the_border_between_two_texts_is_never_counted() -> None:
    counts = NextTokens()
    counts.extend([1, 2, -1, 3, 4])
    assert counts.passing([2], LAX) is None
    assert all(min(key) >= 0 and min(after) >= 0 for key, after in counts._counts.items())
