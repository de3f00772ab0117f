"""Be the draft: the visitor writes the next words, and the target accepts or corrects them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import say
from visualize.draft_game import game as play
from visualize.draft_game.game import Game
from visualize.draft_game.job import Played, RoundJob
from visualize.kit.events import PRIVATE, in_words
from visualize.kit.json_html import JsonHTML
from visualize.kit.markup import markup
from visualize.server.jobs import Waiting
from visualize.server.limits import visitor_id
from visualize.server.runner import Runner

LONGEST = 4000
"""Most characters of a beginning."""
LONGEST_GUESS = 200
"""Most characters of a guess."""


class DraftGameView(JsonHTML):
    """The text of the game. Value: a `visualize.draft_game.game.view`."""

    VIEW = markup("draft_game/draft_game_view")


class ScoreView(JsonHTML):
    """The score of the game. Value: a `visualize.draft_game.game.score`."""

    VIEW = markup("draft_game/score_view")


class DraftGamePanel:
    """Builds the tab inside an open gr.Blocks and wires it to the runner."""

    def __init__(self, runner: Runner, pair: Any) -> None:
        self.runner, self.pair = runner, pair
        self.game = gr.State(Game())
        gr.Markdown(say("play.purpose"), elem_classes="ouro-motto")
        with gr.Row(elem_classes=["ouro-main", "ouro-game", "ouro-game-draft"]):
            with gr.Column(min_width=0, elem_classes="ouro-inputs"):
                self._build_guess()
            with gr.Column(min_width=0, elem_classes="ouro-result"):
                self.view = DraftGameView(play.view(Game()), elem_id="play-view")
            with gr.Column(min_width=0, elem_classes="ouro-score"):
                self.score = ScoreView(play.score(Game()), elem_id="play-score")
            with gr.Column(min_width=0, elem_classes="ouro-options"):
                self._build_begin()
        self._wire()

    def _build_guess(self) -> None:
        self.typed = gr.Textbox(
            label="The next words",
            placeholder="What comes next? Enter sends it.",
            max_lines=3,  # a text area, whose Enter still sends it
            max_length=LONGEST_GUESS,
            elem_id="play-guess",
        )
        with gr.Row(elem_classes="ouro-buttons"):
            self.go = gr.Button("Guess", variant="primary", elem_id="play", min_width=0)

    def _build_begin(self) -> None:
        with gr.Accordion("Another text", open=False):
            self.beginning = gr.Textbox(
                Game().beginning,
                label="The text begins",
                lines=3,
                max_lines=8,
                max_length=LONGEST,
                elem_id="play-beginning",
            )
            with gr.Row(elem_classes="ouro-chips ouro-row"):
                self.chips = [
                    gr.Button(label, size="sm", elem_classes="ouro-chip ouro-pill", min_width=0)
                    for label in play.BEGINNINGS
                ]
        self.again = gr.Button("Begin again", elem_id="play-again", min_width=0)
        gr.Markdown(
            say("play.intro", rounds=play.ROUNDS, most=play.MOST_TOKENS), elem_classes="ouro-note"
        )

    def _wire(self) -> None:
        gr.on(
            [self.go.click, self.typed.submit],
            self._guess,
            [self.game, self.pair, self.typed],
            [self.view, self.score, self.typed],
            concurrency_limit=None,
            trigger_mode="once",
            **PRIVATE,
        )
        begun = [self.view, self.score, self.typed]
        for chip, text in zip(self.chips, play.BEGINNINGS.values(), strict=True):
            chip.click(
                lambda game, text=text: (text, *_begin(game, text)),
                self.game,
                [self.beginning, *begun],
                **PRIVATE,
            )
        self.again.click(_begin, [self.game, self.beginning], begun, **PRIVATE)

    def _guess(self, request: gr.Request, game: Game, pair: str, typed: str) -> Iterator[list[Any]]:
        try:
            _check(game, pair, typed)
            number = game.number
            job = RoundJob(game.beginning, game.context, typed)
            for update in self.runner.submit(job, pair=pair, visitor=visitor_id(request)):
                if game.number != number:
                    return
                match update:
                    case Waiting(status=status):
                        yield [play.view(game, status), gr.skip(), gr.skip()]
                    case Played():
                        game.pair = pair
                        game.rounds.append(update.round)
                        yield [play.view(game), play.score(game), ""]
        except Exception as error:
            yield [play.view(game, in_words(error)), gr.skip(), gr.skip()]


def _check(game: Game, pair: str, typed: str) -> None:
    if game.over:
        raise InvalidInput("this game is over: press Begin again")
    if game.rounds and game.pair != pair:
        raise InvalidInput("this game was begun with other models: press Begin again")
    if not typed.strip():
        raise InvalidInput("write at least one word: what may come next?")
    if len(typed) > LONGEST_GUESS:
        raise InvalidInput(
            f"a guess has at most {LONGEST_GUESS} characters, got {len(typed)}: write less"
        )


def _begin(game: Game, beginning: str) -> tuple[Any, Any, Any]:
    try:
        if not beginning.strip():
            raise InvalidInput("the text is empty: write a beginning, or choose one")
        if len(beginning) > LONGEST:
            raise InvalidInput(
                f"a beginning has at most {LONGEST} characters, got {len(beginning)}: shorten it"
            )
        game.begin(beginning)
    except InvalidInput as error:
        return play.view(game, str(error)), gr.skip(), gr.skip()
    return play.view(game), play.score(game), ""
