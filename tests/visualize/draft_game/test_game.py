"""Be the draft: the score of a game, and a whole one in a real browser."""

from typing import Any

import pytest

from tests.visitor import answer, has, insist, open_tab
from visualize.draft_game import game as play
from visualize.draft_game.game import Game, Round
from visualize.draft_game.guesses import RIVALS, YOU, Guess

HOSTILE = "<img src=x onerror=alert(1)>{{value}}${1+1}"


def made(you: Guess, other: Guess, spelling: str = "typed", ended: bool = False) -> Round:
    guesses = {"you": you, "speculative": other}
    pieces = {name: tuple(f" t{t}" for t in one.tokens) for name, one in guesses.items()}
    texts = tuple(f" t{token}" for token in you.emitted)
    wanted = "" if you.target_token is None else f" t{you.target_token}"
    return Round((1, 2), guesses, pieces, texts, wanted, spelling, ended)


WRONG, HALF = Guess((7,), 0, 9, 2), Guess((3, 4), 1, 5, 3)
WHOLE = Guess((3, 4, 5), 3, 6, 4)


def test_the_players_are_those_of_the_core() -> None:
    assert play.YOU == YOU and list(play.NAMES) == [YOU, *RIVALS]


def test_the_score_is_the_mean_acceptance_length_on_the_same_positions() -> None:
    game = Game(rounds=[made(WRONG, WHOLE), made(HALF, WRONG)])
    assert game.mean("you") == (1 + 2) / 2 and game.mean("speculative") == (4 + 1) / 2
    assert game.share("you") == (1, 3) and game.share("speculative") == (3, 4)
    assert game.context == (1, 2, 3, 5), "the visitor's tokens and the correction go on"
    assert not game.over
    game.rounds *= 5
    assert game.over and "the draft model 2.50, you 1.50. You are second" in play.summary(game)
    even = Game(rounds=[made(HALF, HALF)])
    assert "You share the first place" in play.summary(even)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (made(WRONG, HALF), "0 of 1 token accepted, the target wanted “ t9”, not “ t7”."),
        (made(WHOLE, HALF), "3 of 3 tokens accepted, and the target adds “ t6”."),
        (
            made(HALF, HALF, "spaced"),
            "1 of 2 tokens accepted, the target wanted “ t5”, not “ t4”. A space was put",
        ),
        (made(Guess((3,), 1, None, 2), HALF, ended=True), "1 of 1 token accepted, the text ends"),
    ],
)
def test_what_became_of_a_guess_is_said(one: Round, said: str) -> None:
    assert play.outcome(one).startswith(said)


def test_the_text_shows_what_was_accepted_what_was_struck_and_the_targets_own() -> None:
    shown = play.view(Game("Go", rounds=[made(HALF, WHOLE), made(WHOLE, WHOLE)]))
    assert [(part["text"], part["look"]) for part in shown["text"]] == [
        ("Go", "given"),
        (" t3", "draft"),
        (" t4", "struck"),
        (" t5", "correction"),
        (" t3", "draft"),
        (" t4", "draft"),
        (" t5", "draft"),
        (" t6", "bonus"),
    ]


def test_a_new_game_is_another_one_so_that_a_late_round_does_not_count() -> None:
    game = Game(rounds=[made(HALF, HALF)])
    number = game.number
    game.begin("Once")
    assert game.rounds == [] and game.number != number and game.context == ()


def guess(page: Any, words: str, number: int) -> None:
    def send() -> None:
        page.locator("#play-guess textarea").fill(words)
        page.keyboard.press("Enter")

    view = "document.querySelector('#play-view .ouro-draft-game')"
    insist(page, send, f"{view}.dataset.rounds === '{number}'")


@pytest.mark.browser
@pytest.mark.embedded
@pytest.mark.slow
def test_a_game_on_a_phone_by_keyboard_writes_the_targets_own_text(page: Any, url: str) -> None:
    """Oracle: plain decoding of the same beginning, by the endpoint."""
    page.set_viewport_size({"width": 390, "height": 844})
    open_tab(page, "Play")
    page.locator("#play-guess textarea").wait_for()
    page.wait_for_url("**/#play")
    for number, words in enumerate(["takes", HOSTILE, *["the cat to the"] * 8], 1):
        guess(page, words, number)
        has(page.locator(".ouro-draft-game-table tr"), 4)
        places = [f"#play-{part}" for part in ("view", "guess", "score")]
        tops = [page.locator(place).bounding_box()["y"] for place in places]
        assert tops == sorted(tops) and 0 < tops[1] < 720, "the score stands below the box"
    status = page.locator(".ouro-draft-game-status").inner_text()
    assert status.startswith("10 rounds, tokens per pass:") and "the draft model" in status
    assert "<img src=x" in page.locator("#play-view").inner_text(), "as text"
    assert page.locator("#play-view img").count() == 0
    kept = page.locator(".ouro-draft-game-text > :not(.ouro-draft-game-struck)")
    written, begun = "".join(kept.all_text_contents()), Game().beginning
    text = begun + answer(url, begun, "autoregressive", chat=False, max_new_tokens=80)["text"]
    assert text.startswith(written) and len(written) > len(begun) + 20
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#play").click()
    page.get_by_text("this game is over").first.wait_for()
    page.locator("#play-again").press("Enter")
    page.wait_for_selector('#play-view .ouro-draft-game[data-rounds="0"]')
