"""A chapter on its own: by its address, in a frame of another page, and full screen. The oracle is
what a browser shows of the static site, from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from visualize.learn import lessons

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AROUND = """<!doctype html><script>
addEventListener("message", ({ data }) => {
  if (!data.ouroboros) return;
  document.querySelector("iframe").height = data.height;
  document.title = data.ouroboros;
});
</script><iframe src="index.html?embed#reject" width="1200" height="300"></iframe>"""
TITLE = ".ouro-learn-title"


def opened(browser: Any, address: str, width: int = 1440) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(address)
    page.wait_for_selector(".ouro-learn[data-at]")
    return page


def test_an_address_opens_its_chapter_and_follows_the_reader(browser: Any, site: Path) -> None:
    third, fourth = lessons.chapters()[2:4]
    page = opened(browser, f"{(site / 'index.html').as_uri()}#{third['id']}")
    assert page.inner_text(TITLE) == third["title"]
    page.click(f".ouro-learn-chapter:has-text('{fourth['title']}')")
    page.wait_for_function(f"location.hash === '#{fourth['id']}'")
    page.evaluate(f"location.hash = '{third['id']}'")
    page.wait_for_function(f"document.querySelector('{TITLE}').textContent === `{third['title']}`")
    page.click(".ouro-share summary")
    assert page.input_value(".ouro-share input").endswith(f"#{third['id']}")
    help_text = page.inner_text(".ouro-share-box p")
    assert "data.height" in help_text and "make static" not in help_text
    frame = page.input_value(".ouro-share textarea")
    assert f'?embed#{third["id"]}" title="Ouroboros: {third["title"]}"' in frame
    assert 'height="' in frame and 'allow="fullscreen"' in frame
    page.close()


@pytest.mark.parametrize("width", [1200, 390])
def test_a_frame_shows_one_chapter_and_tells_its_height(
    browser: Any, site: Path, width: int
) -> None:
    """The page around it gives the frame that height, and nothing of it is cut."""
    (site / "around.html").write_text(AROUND.replace('"1200"', f'"{width}"'), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    page.goto((site / "around.html").as_uri())
    page.wait_for_function("document.title === 'reject'")
    frame = page.frames[1]
    frame.wait_for_selector(".ouro-learn[data-at]")
    whole = "innerHeight > 300 && document.documentElement.scrollHeight <= innerHeight"
    frame.wait_for_function(whole)
    assert frame.inner_text(TITLE) == lessons.chapters()[2]["title"]
    for hidden in (
        ".ouro-header",
        ".ouro-site-nav",
        "nav[aria-label=Chapters]",
        ".ouro-share details",
    ):
        assert not frame.is_visible(hidden), hidden
    high, given = frame.evaluate("[document.documentElement.scrollHeight, innerHeight]")
    assert 300 < given < 3000 and high <= given
    assert frame.get_attribute(".ouro-share-whole", "href").endswith("index.html#reject")
    page.close()


def test_a_students_name_stays_in_the_links_of_the_site(browser: Any, site: Path) -> None:
    page = opened(browser, f"{(site / 'index.html').as_uri()}?student=Ada#reject")
    links = page.locator(".ouro-site-nav a")
    assert links.count() > 1
    assert links.evaluate_all("all => all.every((a) => a.search === '?student=Ada')")
    page.goto(f"{(site / 'index.html').as_uri()}?embed&student=Ada#reject")
    page.wait_for_selector(".ouro-learn[data-at]")
    whole = page.get_attribute(".ouro-share-whole", "href")
    assert whole is not None and whole.endswith("index.html?student=Ada#reject")
    page.close()


def test_full_screen_shows_the_lessons_alone_and_escape_leaves_it(browser: Any, site: Path) -> None:
    """Also where the browser refuses, the lessons fill the window."""
    page = opened(browser, (site / "index.html").as_uri())
    refuse = "document.documentElement.requestFullscreen = () => Promise.reject(new Error())"
    page.evaluate(f"() => {{ {refuse}; }}")
    page.click(".ouro-share-full")
    page.wait_for_function("document.documentElement.hasAttribute('data-ouro-alone')")
    assert not page.is_visible(".ouro-header") and page.is_visible(TITLE)
    assert page.inner_text(".ouro-share-full") == "Leave full screen"
    page.keyboard.press("Escape")
    assert page.is_visible(".ouro-header")
    assert page.inner_text(".ouro-share-full") == "Full screen"
    page.evaluate("location.hash = 'reject'")
    page.wait_for_function(f"document.querySelector('{TITLE}').textContent.startsWith('Accept')")
    page.click(".ouro-share-full")
    page.wait_for_function("document.documentElement.hasAttribute('data-ouro-alone')")
    page.go_back()
    page.wait_for_selector(".ouro-header")  # what stands there has no way to leave
    page.close()


def test_where_a_frame_may_not_fill_the_screen_no_button_says_so(browser: Any, site: Path) -> None:
    frame = '<iframe allow="fullscreen \'none\'" width="1200" height="800" src="index.html?embed">'
    (site / "framed.html").write_text(frame, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    page.goto((site / "framed.html").as_uri())
    frame = page.frames[1]
    frame.wait_for_selector(".ouro-learn[data-at]")
    assert frame.evaluate("document.fullscreenEnabled") is False
    assert frame.is_hidden(".ouro-share-full") and frame.is_visible(".ouro-share-whole")
    page.close()


def test_full_screen_is_the_browsers_own_where_it_has_one(browser: Any, site: Path) -> None:
    page = opened(browser, (site / "index.html").as_uri())
    page.click(".ouro-share-full")
    page.get_by_role("button", name="Leave full screen").wait_for()
    translated = "n => { n.innerHTML = '<font><font>Vollbild verlassen</font></font>'; }"
    page.locator(".ouro-share-full").evaluate(translated)
    assert page.evaluate("document.fullscreenElement !== null")
    page.click(".ouro-share-full")
    page.get_by_role("button", name="Full screen", exact=True).wait_for()
    page.wait_for_function("document.fullscreenElement === null")
    page.close()


def test_the_last_button_leads_to_the_questions_where_they_can_be_seen(
    browser: Any, site: Path
) -> None:
    *_, last = lessons.chapters()
    page = opened(browser, f"{(site / 'index.html').as_uri()}?embed#{last['id']}")
    onward = page.locator(".ouro-learn-next")
    for _ in last["stops"]:
        onward.click()
    assert page.inner_text(".ouro-learn-position") == "A question"
    assert not onward.is_visible() and not page.is_visible(".ouro-learn-questions")
    there = "document.activeElement.matches('.ouro-learn-back')"
    assert page.evaluate(there), "whoever goes by keys still stands somewhere"
    page.locator(".ouro-learn-answer button").first.press("Enter")
    page.locator(".ouro-learn-verdict").wait_for()
    assert page.evaluate(there)
    page.evaluate("document.documentElement.removeAttribute('data-ouro-alone')")
    assert onward.inner_text() == "To the end" and page.is_visible(".ouro-learn-questions")
    onward.click()
    assert page.locator(".ouro-learn-lines li").count() == 5
    assert "1 of 12 answered" in page.inner_text(".ouro-learn-score")
    assert onward.inner_text() == "Review questions", "the others end the chapters"
    page.click(".ouro-learn-back")
    assert page.inner_text(".ouro-learn-position") == "A question"
    page.close()


def test_on_the_page_a_chapter_has_an_address_behind_that_of_learn(browser: Any, url: str) -> None:
    fourth = lessons.chapters()[3]
    page = opened(browser, f"{url}#learn/{fourth['id']}")
    assert page.inner_text(TITLE) == fourth["title"]
    assert page.evaluate("location.hash") == f"#learn/{fourth['id']}"
    page.click(".ouro-learn-next")
    page.click(".ouro-share summary")
    assert page.input_value(".ouro-share input").endswith(f"/#learn/{fourth['id']}")
    assert "make static" in page.inner_text(".ouro-share-box p"), "here there is no such page"
    page.close()
