"""What a method remembers of a visitor's runs: for the next one, and as a file."""

from dataclasses import replace
from functools import partial

import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark.protocol import ROUNDS
from ouroboros_core.decoding.generation import Generation
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.lookup.successors import Successors
from ouroboros_core.trace.file import MAX_BYTES
from ouroboros_core.tree import Learned, TokenTree
from tests.visualize.jobs import make_task, run
from visualize.server.runner import Runner
from visualize.watch.session import Order, Session


@pytest.mark.usefixtures("never_busy")
@pytest.mark.parametrize("method", ["sam", "token_recycling"])
def test_every_round_of_a_warm_run_begins_with_what_was_kept_before_it(
    runner: Runner, begun: list[Generation], method: str
) -> None:
    """A run that knew its own answer of the round before would copy it: fewer steps."""
    task, session = make_task(method=method), Session()
    for _ in range(2):
        order = Order(task, warm=True)
        session.place(order)
        for update in run(runner, task, compare=True, memory=partial(session.memory, task)):
            session.take(update, order)
    cold, *others = [len(one.steps) for one in begun if one.task.method == method]
    warm = others[ROUNDS]
    assert others == [cold] * ROUNDS + [warm] * (1 + ROUNDS)
    assert warm < cold, "the case must be one in which memory saves steps"
    (kept,) = session.memories.values()
    assert kept.runs == 2, "one run for each that was asked for"


@pytest.mark.parametrize("method", ["ouroboros", "token_recycling", "sam", "union"])
def test_what_is_kept_for_a_warm_start_belongs_to_one_visitor(runner: Runner, method: str) -> None:
    task, mine, other = make_task(method=method), Session(), Session()
    if method == "ouroboros":  # phrases of the text, of which so short a one has some
        kind = methods.get(method)
        task = replace(task, hyperparameters=kind.Hyperparameters.parse({"extended": True}))
    said = []
    for session in (mine, mine, other):
        order = Order(task, warm=True)
        session.place(order)
        for update in run(runner, task, compare=False, memory=partial(session.memory, task)):
            session.take(update, order)
        assert session.trace is not None
        origins = [p for step in session.trace.steps for p in step.tree.provenance]
        said.append(any(p.learned is Learned.HISTORY for p in origins))
    assert said == [False, True, False], "another visitor begins cold"
    (kept,), (theirs,) = mine.memories.values(), other.memories.values()
    assert (kept.runs, theirs.runs) == (2, 1) and kept is not theirs


@pytest.mark.parametrize("method", ["ouroboros", "token_recycling", "sam", "union"])
def test_what_a_visitor_downloads_is_what_the_next_run_begins_with(
    runner: Runner, method: str
) -> None:
    """The identity: saved, loaded by somebody else, and saved again it is the same text; the oracle
    of what it does is the run of the one who made it."""
    task, mine, other = make_task(method=method), Session(), Session()
    pair = runner.models.loaded("")
    with pytest.raises(InvalidInput, match="nothing yet"):
        mine.memory_file(task, pair)

    def trees(session: Session) -> list[TokenTree]:
        order = Order(task, warm=True)
        session.place(order)
        for update in run(runner, task, compare=False, memory=partial(session.memory, task)):
            with pytest.raises(InvalidInput, match="under way"):
                session.memory_file(task, pair)
            session.take(update, order)
        assert session.trace is not None
        return [step.tree for step in session.trace.steps]

    trees(mine)
    file = mine.memory_file(task, pair)
    assert file["name"] == f"{method}-memory.json" and file["said"].endswith("after 1 run")
    assert "next run begins" in other.open_memory(task, pair, file["text"])
    assert other.memory_file(task, pair)["text"] == file["text"]
    assert trees(mine) == trees(other)


def test_a_file_that_does_not_fit_the_method_is_refused_with_the_reason(runner: Runner) -> None:
    pair, session = runner.models.loaded(""), Session()
    task = make_task(method="ouroboros")
    size = task.hyperparameters.model_dump()["ngram_size"]
    for memory, why in (
        (Successors(8, pair.fingerprint), "matrix of candidates, but this method keeps"),
        (PhrasePool(size, 4, fingerprint="other"), "another tokenizer"),
        (PhrasePool(size + 1, 4, fingerprint=pair.fingerprint), "made with other settings"),
    ):
        with pytest.raises(InvalidInput, match=why):
            session.open_memory(task, pair, memory.to_json())
    far = PhrasePool(size, 4, fingerprint=pair.fingerprint)
    far.insert(2**20, (1,) * (size - 1), Learned.VERIFICATION, 0)
    with pytest.raises(InvalidInput, match="beyond the vocabulary"):
        session.open_memory(task, pair, far.to_json())
    with pytest.raises(InvalidInput, match="keeps nothing"):
        session.open_memory(make_task(method="speculative"), pair, far.to_json())
    with pytest.raises(InvalidInput, match="characters"):
        session.open_memory(task, pair, " " * (MAX_BYTES + 1))
    assert not session.memories
