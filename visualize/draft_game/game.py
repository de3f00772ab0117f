"""The game "Be the draft": a visitor's words are checked as a draft is, beside those of the draft
model and of prompt lookup in the same places."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ouroboros_core.messages import counted, isolated

if TYPE_CHECKING:
    from visualize.draft_game.guesses import Guess

ROUNDS = 10
MOST = 8
"""Tokens of a guess, whoever makes it."""
ROWS = 2 * MOST + 3 + 2 * MOST
"""Of the target's three passes of a round, at most: the visitor's guess may have two spellings."""
YOU = "you"
NAMES = {YOU: "you", "speculative": "the draft model", "prompt_lookup": "prompt lookup"}
BEGINNINGS = {
    "Park": (
        "Tom has a dog. Every day Tom takes the dog to the park by the river. Anna has a cat. "
        "Every day Anna"
    ),
    "Code": (
        "class Stack:\n    def __init__(self):\n        self.items = []\n\n"
        "    def push(self, item):\n"
    ),
    "Story": "Once upon a time there was a lighthouse keeper who collected",
}
"""Texts to go on with, by what their buttons say."""


@dataclass(frozen=True)
class Round:
    """What became of the guesses behind one context, which is token ids.

    guesses   by player; the visitor's decides how the text goes on
    pieces    by player, the text of each token that was proposed
    texts     of the tokens that the text grew by
    wanted    the text of the target's own token; empty where an accepted one ended the text
    spelling  how the visitor's words were read: 'spaced' with a space that was put before them,
              'joined' to the word before them, or 'typed'
    ended     whether the text ended
    """

    context: tuple[int, ...]
    guesses: dict[str, Guess]
    pieces: dict[str, tuple[str, ...]]
    texts: tuple[str, ...]
    wanted: str
    spelling: str
    ended: bool

    @property
    def rows(self) -> int:
        """Of all passes of the target."""
        return sum(guess.rows for guess in self.guesses.values())


@dataclass
class Game:
    """One visitor's game; `number` grows with every new one, so that a round of an earlier one is
    known when it comes late."""

    beginning: str = next(iter(BEGINNINGS.values()))
    pair: str = ""
    rounds: list[Round] = field(default_factory=list)
    number: int = 0

    def begin(self, beginning: str) -> None:
        """Another game."""
        self.beginning, self.pair, self.rounds = beginning, "", []
        self.number += 1

    @property
    def context(self) -> tuple[int, ...]:
        """Token ids so far; empty before the first round."""
        if not self.rounds:
            return ()
        last = self.rounds[-1]
        return last.context + last.guesses[YOU].emitted

    @property
    def over(self) -> bool:
        return len(self.rounds) >= ROUNDS or any(one.ended for one in self.rounds)

    @property
    def players(self) -> list[str]:
        return list(self.rounds[0].guesses) if self.rounds else list(NAMES)

    def mean(self, player: str) -> float:
        """Mean acceptance length: tokens that a pass of the target yields, its own included."""
        lengths = [len(one.guesses[player].emitted) for one in self.rounds]
        return sum(lengths) / len(lengths)

    def share(self, player: str) -> tuple[int, int]:
        """Accepted and proposed tokens."""
        guesses = [one.guesses[player] for one in self.rounds]
        return sum(guess.accepted for guess in guesses), sum(len(guess.tokens) for guess in guesses)


def quoted(text: str) -> str:
    """A piece of text in a sentence, its breaks made visible."""
    return f"“{isolated(text)}”".replace("\n", "↵")


def told(one: Round) -> str:
    """What became of the visitor's guess, in words."""
    guess, pieces = one.guesses[YOU], one.pieces[YOU]
    all_of = guess.accepted == len(pieces)
    how = {
        "spaced": " A space was put before it.",
        "joined": " It was read as part of the word before.",
        "typed": "",
    }
    accepted = f"{guess.accepted} of {counted(len(pieces), 'token')} accepted"
    if not one.wanted:
        own = "the text ends there"
    elif all_of:
        own = f"and the target adds {quoted(one.wanted)}"
    else:
        own = f"the target wanted {quoted(one.wanted)}, not {quoted(pieces[guess.accepted])}"
    return f"{accepted}, {own}.{how[one.spelling]}"


def summary(game: Game) -> str:
    """How it ended: the players by their tokens per pass, and who of them the visitor is."""
    means = {player: game.mean(player) for player in game.players}
    order = sorted(means, key=lambda player: -means[player])
    scores = ", ".join(f"{NAMES[player]} {means[player]:.2f}" for player in order)
    better = sum(round(mean, 2) > round(means[YOU], 2) for mean in means.values())
    equal = sum(round(mean, 2) == round(means[YOU], 2) for mean in means.values()) > 1
    rank = ("first", "second", "third")[better]
    place = f"share the {rank} place" if equal else f"are {rank}"
    return (
        f"{counted(len(game.rounds), 'round')}, tokens per pass: {scores}. You {place}. The text "
        "is what the target writes by itself: guesses change only how many passes it takes."
    )


def view(game: Game, status: str = "") -> dict[str, Any]:
    """What the page draws of a game: {seq, text: [{text, look}], said, status, round, done}; a
    look is that of a token, or 'given' or 'struck'."""
    text = [{"text": game.beginning, "look": "given"}]
    for one in game.rounds:
        text += _written(one)
    said = told(game.rounds[-1]) if game.rounds else ""
    if not status:
        ahead = f"Round {len(game.rounds) + 1} of {ROUNDS}: what comes next?"
        status = summary(game) if game.over else ahead
    facts: dict[str, Any] = {"text": text, "said": said, "status": status}
    facts |= {"round": len(game.rounds), "done": game.over}
    return {"seq": time.time_ns(), **facts}


def score(game: Game) -> dict[str, Any]:
    """The players' table: {seq, rows}; empty before the first round."""
    rows = [_row(game, player) for player in game.players] if game.rounds else []
    return {"seq": time.time_ns(), "rows": rows}


def _written(one: Round) -> list[dict[str, str]]:
    """A round in the text: what was accepted, what was struck, and the target's own token."""
    guess, pieces = one.guesses[YOU], one.pieces[YOU]
    accepted = [{"text": text, "look": "draft"} for text in one.texts[: guess.accepted]]
    struck = [{"text": text, "look": "struck"} for text in pieces[guess.accepted :]]
    look = "correction" if struck else "bonus"
    own = [{"text": text, "look": look} for text in one.texts[guess.accepted :]]
    return accepted + struck + own


def _row(game: Game, player: str) -> dict[str, Any]:
    """A player's score, and the last guess with how much of it was accepted."""
    last = game.rounds[-1]
    accepted, proposed = game.share(player)
    return {
        "name": NAMES[player],
        "you": player == YOU,
        "mean": f"{game.mean(player):.2f}",
        "share": f"{accepted} of {proposed}",
        "pieces": list(last.pieces[player]),
        "accepted": last.guesses[player].accepted,
    }


def spelling(typed: Sequence[tuple[int, ...]], guess: Guess) -> str:
    """Which of the two spellings counted; see `Round`."""
    if len(typed) == 1:
        return "typed"
    return "spaced" if guess.tokens == typed[0] else "joined"
