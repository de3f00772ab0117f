"""The game "Be the draft": the target checks a visitor's words as it checks a draft.

The draft model and prompt lookup guess at the same positions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ouroboros_core.messages import counted, isolated

if TYPE_CHECKING:
    from visualize.draft_game.guesses import Guess

ROUNDS = 10
MOST_TOKENS = 8
"""Longest guess of any player."""
ROWS = 2 * MOST_TOKENS + 3 + 2 * MOST_TOKENS
"""Most rows of the target's three passes of a round: the visitor's guess may have two spellings."""
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
"""Beginnings of a game by the labels of their buttons."""


@dataclass(frozen=True)
class Round:
    """The guesses behind one context, judged by the target.

    context   token ids
    guesses   by player; the visitor's guess decides how the text continues
    pieces    by player, the text of each proposed token
    texts     of the tokens that the text grew by
    correct   the text of the target's own token; empty if an accepted token ended the text
    spelling  'spaced' if a space was put before the visitor's words, 'joined' if they were read as
              part of the word before, or 'typed'
    ended     whether the text ended
    """

    context: tuple[int, ...]
    guesses: dict[str, Guess]
    pieces: dict[str, tuple[str, ...]]
    texts: tuple[str, ...]
    correct: str
    spelling: str
    ended: bool

    @property
    def rows(self) -> int:
        """Return the rows of all passes of the target."""
        return sum(guess.rows for guess in self.guesses.values())


@dataclass
class Game:
    """One visitor's game.

    `number` grows with every new game, so a late round of an earlier one is recognized.
    """

    beginning: str = next(iter(BEGINNINGS.values()))
    pair: str = ""
    rounds: list[Round] = field(default_factory=list)
    number: int = 0

    def begin(self, beginning: str) -> None:
        self.beginning, self.pair, self.rounds = beginning, "", []
        self.number += 1

    @property
    def context(self) -> tuple[int, ...]:
        """Return the token ids so far; empty before the first round."""
        if not self.rounds:
            return ()
        last = self.rounds[-1]
        return last.context + last.guesses[YOU].emitted

    @property
    def over(self) -> bool:
        return len(self.rounds) >= ROUNDS or any(played.ended for played in self.rounds)

    @property
    def players(self) -> list[str]:
        return list(self.rounds[0].guesses) if self.rounds else list(NAMES)

    def mean(self, player: str) -> float:
        """Return the mean acceptance length: tokens of a pass, the target's own included."""
        lengths = [len(played.guesses[player].emitted) for played in self.rounds]
        return sum(lengths) / len(lengths)

    def share(self, player: str) -> tuple[int, int]:
        """Return the numbers of accepted and proposed tokens."""
        guesses = [played.guesses[player] for played in self.rounds]
        return sum(guess.accepted for guess in guesses), sum(len(guess.tokens) for guess in guesses)


def quoted(text: str) -> str:
    """Return a piece of text for a sentence, with visible line breaks."""
    return f"“{isolated(text)}”".replace("\n", "↵")


def outcome(played: Round) -> str:
    """Return in words how much of the visitor's guess was accepted."""
    guess, pieces = played.guesses[YOU], played.pieces[YOU]
    reading = {
        "spaced": " A space was put before it.",
        "joined": " It was read as part of the word before.",
        "typed": "",
    }
    accepted = f"{guess.accepted} of {counted(len(pieces), 'token')} accepted"
    if not played.correct:
        sequel = "the text ends there"
    elif guess.accepted == len(pieces):
        sequel = f"and the target adds {quoted(played.correct)}"
    else:
        sequel = f"the target wanted {quoted(played.correct)}, not {quoted(pieces[guess.accepted])}"
    return f"{accepted}, {sequel}.{reading[played.spelling]}"


def summary(game: Game) -> str:
    """Return the result: the players by their tokens per pass, and the visitor's rank."""
    means = {player: game.mean(player) for player in game.players}
    order = sorted(means, key=lambda player: -means[player])
    scores = ", ".join(f"{NAMES[player]} {means[player]:.2f}" for player in order)
    better = sum(round(mean, 2) > round(means[YOU], 2) for mean in means.values())
    equal = sum(round(mean, 2) == round(means[YOU], 2) for mean in means.values()) > 1
    rank = ("first", "second", "third")[better]
    standing = f"share the {rank} place" if equal else f"are {rank}"
    return (
        f"{counted(len(game.rounds), 'round')}, tokens per pass: {scores}. You {standing}. The "
        "text is what the target writes by itself: guesses change only how many passes it takes."
    )


def view(game: Game, status: str = "") -> dict[str, Any]:
    """Return the view of a game: {seq, text: [{text, look}], said, status, round, done}.

    A look is that of a token, or 'given' or 'struck'.
    """
    text = [{"text": game.beginning, "look": "given"}]
    for played in game.rounds:
        text += _written(played)
    if not status:
        ahead = f"Round {len(game.rounds) + 1} of {ROUNDS}: what comes next?"
        status = summary(game) if game.over else ahead
    facts: dict[str, Any] = {"text": text, "status": status}
    facts |= {"round": len(game.rounds), "done": game.over}
    facts["said"] = outcome(game.rounds[-1]) if game.rounds else ""
    return {"seq": time.time_ns(), **facts}


def score(game: Game) -> dict[str, Any]:
    """Return the players' table: {seq, rows}; empty before the first round."""
    rows = [_row(game, player) for player in game.players] if game.rounds else []
    return {"seq": time.time_ns(), "rows": rows}


def _written(played: Round) -> list[dict[str, str]]:
    """Return a round in the text: accepted and struck tokens, and the target's own."""
    guess, pieces = played.guesses[YOU], played.pieces[YOU]
    accepted = [{"text": text, "look": "draft"} for text in played.texts[: guess.accepted]]
    struck = [{"text": text, "look": "struck"} for text in pieces[guess.accepted :]]
    look = "correction" if struck else "bonus"
    targets = [{"text": text, "look": look} for text in played.texts[guess.accepted :]]
    return accepted + struck + targets


def _row(game: Game, player: str) -> dict[str, Any]:
    """Return a player's score, and the last guess with its accepted part."""
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
    """Return which of the two spellings counted; see `Round`."""
    if len(typed) == 1:
        return "typed"
    return "spaced" if guess.tokens == typed[0] else "joined"
