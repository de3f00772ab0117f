"""A round of "Be the draft" as a job."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ouroboros_core.decoding.text import TextStream, decode_all
from visualize.draft_game import game
from visualize.draft_game.game import Round
from visualize.server.jobs import Job, Turn, Update

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair


@dataclass(frozen=True)
class Played(Update):
    """A round is over."""

    round: Round


@dataclass(frozen=True)
class RoundJob(Job):
    """Play a round behind a context; one Played is its only update.

    beginning  the text with which the game begins
    context    token ids so far; empty before the first round
    typed      the visitor's guess

    It charges the rows of the target's passes as tokens.
    """

    kind = "play"
    cost = game.ROWS
    lent_seconds = 20.0
    beginning: str
    context: tuple[int, ...]
    typed: str

    def updates(self, pair: Pair, turn: Turn) -> Generator[Update, None, None]:
        from visualize.draft_game import guesses

        context = self.context or tuple(pair.encode(self.beginning, chat=False))
        decoder = pair.tokenizer
        text = decode_all(decoder, context)
        spellings = guesses.spellings(pair, text, self.typed, game.MOST_TOKENS)
        by_player = guesses.play(pair, context, spellings, game.MOST_TOKENS)
        visitors = by_player[game.YOU]
        pieces = {
            player: tuple(decode_all(decoder, [token]) for token in guess.tokens)
            for player, guess in by_player.items()
        }
        # A character that the round leaves unfinished comes with the next one.
        stream = TextStream(decoder)
        texts = tuple(stream.push(token) for token in context + visitors.emitted)
        token = visitors.target_token
        played = Round(
            context,
            by_player,
            pieces,
            texts[len(context) :],
            "" if token is None else decode_all(decoder, [token]),
            game.spelling(spellings, visitors),
            visitors.emitted[-1] in pair.stop_tokens,
        )
        yield Played(played, tokens=played.rows, steps=len(by_player))
