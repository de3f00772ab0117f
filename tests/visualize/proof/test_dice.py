"""Learn's game of three tokens: what the browser draws, against the core's rules and exact
probabilities."""

import base64
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ouroboros_core.rules.block import block_chances
from ouroboros_core.rules.match import verify
from ouroboros_core.rules.parts.candidates import residual
from ouroboros_core.sampling import gumbel
from ouroboros_core.sources import Source
from ouroboros_core.tree import Probabilities, Provenance, TreeBuilder
from tests.seeded_models import chi_square
from tests.visitor import watch
from visualize.kit.modules import modules
from visualize.learn import lessons

pytestmark = pytest.mark.browser

SETTINGS = [
    ((0.3, 0.5, 0.2), (0.6, 0.2, 0.2)),
    ((0.1, 0.2, 0.7), (0.5, 0.4, 0.1)),
    ((0.4, 0.35, 0.25), (0.05, 0.15, 0.8)),
]
DRAWS = 50_000
PLAY = """async ([code, rule, p, q, draws, seed]) => {
  const game = await import("data:text/javascript;base64," + code), random = game.dice(seed);
  const counts = Array(game.wanted(rule, p).length).fill(0);
  let kept = 0;
  for (let n = 0; n < draws; n++) {
    const done = game.RULES[rule](p, q, random);
    counts[game.outcome(done.tokens, 3)] += 1;
    kept += done.kept;
  }
  const test = game.chiSquare(counts, game.wanted(rule, p));
  const wanted = game.tends(rule, p, q), theory = game.theory(rule, p, q);
  return { counts, kept: kept / draws, wanted, theory, test };
}"""


@pytest.fixture(scope="module")
def blank(browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    yield page
    page.close()


CODE = base64.b64encode(modules()["proof/dice.js"].encode()).decode()


def play(page: Any, rule: str, p: Any, q: Any, draws: int = DRAWS, seed: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(PLAY, [CODE, rule, p, q, draws, seed])
    return found


def probabilities_of(rule: str, p: Probabilities, q: Probabilities) -> Probabilities:
    """What must come, by the core's residual or, for the wrong rule, without it."""
    if rule == "block":
        return np.outer(p, p).ravel()
    result = np.zeros(3)
    for guess in range(3):
        kept = q[guess] * min(1.0, p[guess] / q[guess])
        result[guess] += kept
        result += (q[guess] - kept) * (p if rule == "wrong" else residual(p, guess, q))
    return result


def agreeing(p: Probabilities, q: Probabilities) -> float:
    """How often the core keeps a guess that was chosen with the target's own noise."""
    kept = 0
    for position in range(10_000):
        noise = gumbel(0, position, 3)
        builder = TreeBuilder(0)
        builder.add(int(np.argmax(np.log(q) + noise)), 0, Provenance(Source.DRAFT))
        token = int(np.argmax(np.log(p) + noise))
        kept += len(verify(builder.build(), {0: token, 1: token}.__getitem__)[0])
    return kept / 10_000


def keeping(rule: str, p: Probabilities, q: Probabilities) -> float:
    """How many guesses of a round are kept on average, from the core's rules."""
    if rule == "match":
        return agreeing(p, q)
    if rule != "block":
        return float(np.minimum(p, q).sum())
    rounds = itertools.product(range(3), repeat=2)
    weighed = [(q[a] * q[b], block_chances([p, p], [q, q], (a, b))[0]) for a, b in rounds]
    return float(sum(chance * (weights[1] + weights[2]) for chance, weights in weighed))


@pytest.mark.parametrize(("p", "q"), SETTINGS)
@pytest.mark.parametrize("rule", ["rejection", "block", "match", "wrong"])
def test_what_is_drawn_follows_the_rule_as_the_core_has_it(
    blank: Any, rule: str, p: tuple[float, ...], q: tuple[float, ...]
) -> None:
    played = play(blank, rule, p, q)
    own, theirs = np.array(p), np.array(q)
    wanted = probabilities_of(rule, own, theirs)
    np.testing.assert_allclose(played["wanted"], wanted, atol=1e-12)
    expected = sum(played["counts"]) * wanted
    assert chi_square(played["counts"], expected) < (26.1 if rule == "block" else 13.8), (
        "one in 1000"
    )
    assert played["theory"]["kept"] == pytest.approx(
        keeping(rule, own, theirs), abs=0.02 if rule == "match" else 1e-9
    )
    assert played["kept"] == pytest.approx(played["theory"]["kept"], abs=0.015)
    if played["theory"]["least"] is not None:
        assert played["theory"]["least"] <= played["theory"]["kept"] + 1e-12
    assert (played["test"]["pValue"] < 1e-6) == (rule == "wrong"), "the test tells them apart"


def test_the_game_by_default_is_the_worked_example_whose_wrong_rule_is_known(blank: Any) -> None:
    played = play(blank, "wrong", *SETTINGS[0])
    assert played["wanted"] == pytest.approx([0.39, 0.35, 0.26])


def test_the_p_value_is_that_of_the_table_and_equal_seeds_draw_the_same(blank: Any) -> None:
    """Against the printed table of chi-square: 5.991 and 15.507 are passed by one in twenty."""
    module = f"import('data:text/javascript;base64,{CODE}')"
    for statistic, degrees, chance in [
        *((5.991, 2, 0.05), (15.507, 8, 0.05), (26.125, 8, 0.001)),
        (3.0, 2, math.exp(-1.5)),
    ]:
        found = blank.evaluate(f"async () => (await {module}).beyond({statistic}, {degrees})")
        assert found == pytest.approx(chance, rel=1e-3)
    first, again, other = (play(blank, "match", *SETTINGS[0], 500, seed) for seed in (7, 7, 8))
    assert first["counts"] == again["counts"] != other["counts"]


def open_game(browser: Any, site: Path, width: int) -> Any:
    """The game, on the static site and without a network, at its stop of its chapter."""
    context = browser.new_context(
        viewport={"width": width, "height": 844}, offline=True, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    number = next(n for n, c in enumerate(lessons.chapters()) if c["id"] == "unchanged")
    page.locator(".ouro-learn-chapter").nth(number).click()
    last = len(lessons.chapters()[number]["stops"]) - 1
    for stop in range(last):
        page.wait_for_selector(f'.ouro-learn[data-at="{number}.{stop}"]')
        page.click(".ouro-learn-next")
    page.wait_for_selector(f'.ouro-learn[data-at="{number}.{last}"]')
    page.locator(".ouro-dice-many").wait_for()
    return page


def drawn(page: Any) -> list[int]:
    counts: list[int] = page.eval_on_selector_all(
        ".ouro-dice-bars li", "rows => rows.map(r => Number(r.dataset.count))"
    )
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
def test_the_game_is_played_by_keyboard_without_a_server(
    browser: Any, site: Path, width: int
) -> None:
    """What is shown is what the module draws with the same seed."""
    page = open_game(browser, site, width)
    faults, _ = watch(page)
    page.locator(".ouro-dice-many").press("Enter")
    assert drawn(page) == play(page, "rejection", *SETTINGS[0], 1000)["counts"]
    assert "consistent with p" in page.locator(".ouro-dice-verdict").inner_text()
    if width == 390:
        verdict = page.locator(".ouro-dice-verdict").bounding_box()
        sheet = page.locator(".ouro-learn-text").bounding_box()
        assert verdict["y"] + verdict["height"] <= sheet["y"], "it is seen where one draws"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator('input[value="rejection"]').press("ArrowUp")  # the last of four, round the corner
    assert drawn(page) == [0, 0, 0]
    page.locator(".ouro-dice-one").press("Enter")
    assert "The draft model guesses" in page.locator(".ouro-dice-last").inner_text()
    assert "too few" in page.locator(".ouro-dice-verdict").inner_text()
    endings = set()
    for _ in range(20):
        page.locator(".ouro-dice-one").press("Enter")
        endings |= set(
            re.findall(r"; u is .*: (\w+)", page.locator(".ouro-dice-last").inner_text())
        )
    assert endings == {"kept", "rejected"}
    page.locator(".ouro-dice-many").press("Enter")
    assert "does not sample from p" in page.locator(".ouro-dice-verdict").inner_text()
    page.locator('input[aria-label="p of sun"]').press("End")
    assert page.locator(".ouro-dice-p output").all_inner_texts() == ["59%", "29%", "12%"]
    assert drawn(page) == [0, 0, 0]
    page.locator('input[value="block"]').press("Space")
    page.locator(".ouro-dice-many").press("Enter")
    assert sum(drawn(page)) == 1000 and len(drawn(page)) == 9
    assert not faults
    page.context.close()
