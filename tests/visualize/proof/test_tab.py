"""The proof with real models: what is said of counts, and one in a real browser."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput
from tests.visitor import insist, open_tab
from visualize.proof import tally as proof
from visualize.proof.tab import number_of_seeds, proof_task
from visualize.proof.tally import Tally

P = (0.5, 0.2, 0.1, 0.02)


def tally(counts: tuple[int, ...], other: int, **more: Any) -> Tally:
    total = sum(counts) + other
    return Tally(("a", "b", "c", "d"), P, counts, other, more.pop("seeds", total), **more)


def test_counts_of_p_are_consistent_and_those_of_another_are_not() -> None:
    drawn = np.random.default_rng(1).multinomial(200, [*P, 0.18])
    fits = tally(tuple(drawn[:4]), int(drawn[4]))
    assert "200 seeds are consistent with the target's p: chi-square" in proof.verdict(fits)
    assert "with 3 degrees of freedom" in proof.verdict(fits), "d is expected 4 times: pooled"
    even = tally((40, 40, 40, 40), 40)
    assert "these counts do not come from the target's p" in proof.verdict(even)
    assert "p-value below 0.001" in proof.verdict(even) and proof.view(even)["off"] is True


def test_what_was_never_possible_is_said_and_few_draws_are_not_judged() -> None:
    impossible = Tally(("a", "b"), (0.5, 0.5), (60, 40), 5, 105)
    assert "5 of them wrote what p rules out" in proof.verdict(impossible)
    seldom = Tally(("a", "b", "c"), (0.5, 0.49, 0.01), (100, 98, 1), 1, 200)
    assert proof.view(seldom)["off"] is True, "no pool hides it"
    assert "Take more seeds" in proof.verdict(tally((2, 1, 0, 0), 1))


def test_a_text_that_is_nearly_certain_is_judged_by_the_exact_test() -> None:
    """Nothing but it is expected five times, so that chi-square has nothing to compare."""
    right, wrong = (Tally(("a",), (0.999,), (n,), 200 - n, 200) for n in (200, 0))
    assert "the likeliest text came 200 times, 199.8 expected" in proof.verdict(right)
    assert "200 seeds are consistent" in proof.verdict(right)
    assert "do not come from the target's p" in proof.verdict(wrong)
    assert "higher temperature" in proof.verdict(right) and proof.view(wrong)["off"] is True
    certain = Tally(("a",), (1.0,), (200,), 0, 200)
    assert "200 seeds are consistent" in proof.verdict(certain)
    assert "Take more seeds" in proof.verdict(Tally((), (), (), 200, 200)), "all are rare"


def test_counts_are_judged_once_when_all_are_drawn() -> None:
    """Judged at each update, one in a thousand would be far more."""
    begun, done = (tally((40, 40, 40, 40), 40, seeds=seeds) for seeds in (300, 200))
    assert proof.verdict(begun) == "Judged once, when all are drawn."
    assert proof.view(begun)["off"] is None and proof.view(done)["off"] is True
    assert proof.view(replace(begun, late=True))["off"] is True, "the time does not choose"


def test_bars_and_the_rest_add_up_to_a_whole() -> None:
    many = tuple(0.02 for _ in range(40))
    shown = proof.view(Tally(tuple("x" * 40), many, (2,) * 40, 20, 100))
    assert len(shown["rows"]) == proof.MOST_BARS + 1
    assert sum(row["p"] for row in shown["rows"]) == pytest.approx(1)
    assert sum(row["count"] for row in shown["rows"]) == 100
    assert shown["done"] and replace(tally((1, 0, 0, 0), 0), late=True).done


def test_few_accepted_tokens_are_said_to_test_little() -> None:
    few, many = (tally((1,), 0, proposed=400, accepted=n) for n in (12, 40))
    assert proof.drafts(few).endswith("the test says little about accepted drafts.")
    assert proof.drafts(many).endswith("40 of 400 proposed tokens were accepted.")


def test_every_amount_is_fixed_so_that_something_is_drafted() -> None:
    for kind in methods.available().values():
        task = proof_task(2, "Hello", kind.id, "block", 1.0, False, 7)
        assert "auto" not in task.hyperparameters.model_dump().values()
        assert task.max_new_tokens == 2 + proof.ROOM and task.sampling.seed == 7


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InvalidInput, match="temperature 0 draws nothing"):
        proof_task(1, "Hello", "speculative", "match", 0.0, False, 0)
    for seeds in (50, 501, 100.5, "many"):
        with pytest.raises(InvalidInput, match="seeds must be"):
            number_of_seeds(seeds)


@pytest.mark.browser
@pytest.mark.embedded
def test_there_is_something_drawn_before_anybody_asks(page: Any) -> None:
    open_tab(page, "Proof")
    page.get_by_text("1000 draws are consistent with p").wait_for()


def begin(page: Any) -> None:
    under_way = "document.querySelector('#proof-view .ouro-proof').dataset.done === 'false'"
    insist(page, lambda: page.locator("#prove").press("Enter"), under_way)


def finish(page: Any) -> str:
    page.wait_for_selector('#proof-view .ouro-proof[data-done="true"]', timeout=200_000)
    return str(page.locator(".ouro-proof-verdict").inner_text())


@pytest.mark.browser
@pytest.mark.embedded
@pytest.mark.slow
def test_a_lossless_method_passes_on_a_phone_and_the_draft_alone_does_not(page: Any) -> None:
    """The negative control writes the draft model's text."""
    page.set_viewport_size({"width": 390, "height": 844})
    open_tab(page, "Proof")
    page.wait_for_url("**/#proof")
    assert page.is_disabled("#proof-stop"), "nothing runs"
    page.get_by_label("number input for seeds").fill("100")
    page.keyboard.press("Tab")
    begin(page)
    page.wait_for_selector('#proof-view .ouro-proof[data-done="false"] li', timeout=60_000)
    top = page.locator("#proof-view .ouro-proof").bounding_box()["y"]
    assert -1 <= top < 340, "the result is in view, above the settings"
    said = finish(page)
    assert "100 seeds are consistent with the target's p" in said
    accepted = page.locator(".ouro-proof-drafts").inner_text()
    assert " of " in accepted and not accepted.startswith("Nothing")
    counts = page.eval_on_selector_all(
        "#proof-view li", "rows => rows.map(row => Number(row.dataset.count))"
    )
    assert sum(counts) == 100
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("combobox", name="Method").last.click()
    page.get_by_role("option", name=methods.get("draft_only").name, exact=True).click()
    page.get_by_label("number input for tokens").locator("visible=true").fill("3")
    page.keyboard.press("Tab")
    begin(page)
    page.wait_for_selector('#proof-view .ouro-proof[data-done="false"] li', timeout=60_000)
    longest = max(page.locator(".ouro-proof-text").all_inner_texts(), key=len)
    assert len(longest.replace("·", " ").split()) == 3, f"three tokens: {longest}"
    assert "do not come from the target's p" in finish(page)
    page.get_by_label("number input for seeds").fill("500")  # time to stop
    page.keyboard.press("Tab")
    begin(page)
    page.wait_for_selector("#proof-stop:enabled")
    page.locator("#proof-stop").evaluate("button => button.click()")  # before it is done
    page.get_by_text("Stopped", exact=False).first.wait_for()
    page.wait_for_selector("#proof-stop:disabled")
