"""Whoever guesses is judged as a draft is. The oracle is greedy decoding by the unwrapped model."""

from itertools import takewhile
from types import SimpleNamespace
from typing import Any

import pytest

from ouroboros_core.errors import InvalidInput
from tests import tiny
from visualize.draft_game import guesses

MOST = 6


@pytest.fixture
def pair() -> Any:
    target, draft = tiny.pair("llama")
    return SimpleNamespace(target=target, draft=draft, stop_tokens=frozenset())


@pytest.fixture
def context() -> tuple[int, ...]:
    start = tiny.prompt()
    return (*start, *start)  # prompt lookup finds something


@pytest.fixture
def plain(context: tuple[int, ...]) -> list[int]:
    return tiny.generated(tiny.target("llama"), context, MOST + 1)


def agreeing(tokens: tuple[int, ...], plain: list[int]) -> int:
    pairs = zip(tokens, plain, strict=False)
    return len(list(takewhile(lambda both: both[0] == both[1], pairs)))


def test_every_player_is_accepted_as_far_as_greedy_decoding_says_the_same(
    pair: Any, context: tuple[int, ...], plain: list[int]
) -> None:
    wrong = (plain[2] + 1) % tiny.VOCABULARY
    typed = [(wrong, plain[1]), (plain[0], plain[1], wrong, plain[3])]
    found = guesses.play(pair, context, typed, MOST)
    assert set(found) == {"you", "speculative", "prompt_lookup"}
    for guess in found.values():
        assert guess.accepted == agreeing(guess.tokens, plain)
        assert list(guess.emitted) == plain[: guess.accepted + 1]
    assert found["you"].tokens == typed[1] and found["you"].accepted == 2
    assert found["you"].rows == 7, "both spellings in one pass, and the root"
    assert 0 < len(found["speculative"].tokens) <= MOST and found["prompt_lookup"].tokens


def test_a_whole_guess_is_followed_by_a_bonus_and_a_wrong_one_by_a_correction(
    pair: Any, context: tuple[int, ...], plain: list[int]
) -> None:
    whole = guesses.play(pair, context, [tuple(plain[:3])], MOST)["you"]
    assert whole.accepted == 3 and whole.target_token == plain[3]
    wrong = guesses.play(pair, context, [((plain[0] + 1) % tiny.VOCABULARY,)], MOST)["you"]
    assert wrong.accepted == 0 and wrong.emitted == (plain[0],)


def test_an_accepted_stop_token_ends_the_text_and_nothing_follows_it(
    pair: Any, context: tuple[int, ...], plain: list[int]
) -> None:
    pair.stop_tokens = frozenset({plain[1]})
    guess = guesses.play(pair, context, [tuple(plain[:4])], MOST)["you"]
    assert guess.emitted == tuple(plain[:2]) and guess.target_token is None


def test_without_a_draft_model_its_row_is_missing(pair: Any, context: tuple[int, ...]) -> None:
    pair.draft = None
    assert set(guesses.play(pair, context, [(1,)], MOST)) == {"you", "prompt_lookup"}


@pytest.mark.parametrize(
    ("text", "typed", "read"),
    [
        ("Anna", "sings", [" sings", "sings"]),
        ("Anna", " sings", [" sings"]),
        ("Anna ", "sings", ["sings"]),
        ("Anna", "sings ", [" sings", "sings"]),
        ("Anna", "\nsings", ["\nsings"]),
        ("Anna", "sings a long song", [" sings a", "sings a "]),
    ],
)
def test_a_space_that_was_left_out_is_tried_first(text: str, typed: str, read: list[str]) -> None:
    """Tokens of one character, at most eight."""
    template = SimpleNamespace(as_text=lambda words: [ord(sign) for sign in words])
    found = guesses.spellings(SimpleNamespace(template=template), text, typed, 8)  # type: ignore[arg-type]
    assert ["".join(map(chr, one)) for one in found] == read


def test_what_cannot_be_a_guess_is_refused(pair: Any, context: tuple[int, ...]) -> None:
    for empty in ("", " \n "):
        with pytest.raises(InvalidInput, match="at least one word"):
            guesses.spellings(pair, "Anna", empty, MOST)
    with pytest.raises(InvalidInput, match="beyond the vocabulary"):
        guesses.play(pair, context, [(tiny.VOCABULARY + 5,)], MOST)
