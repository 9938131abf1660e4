"""The page in a real browser (Debian's Chromium): no error, nothing fetched from elsewhere, readable by everyone."""

import shutil
from dataclasses import dataclass, field

import pytest

from tests.unit.project.lakes import health, loss, reported, sound, write
from tests.web.lakes import ALERT, NOW, WHERE, incident
from tests.web.many import VIEWS as MANY
from tests.web.many import write_many
from tests.web.recorded import write_recordings
from tests.web.serving import served

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed: apt-get install chromium")
VIEWS = {
    "overview": "/",
    "cluster": "/?cluster=prod",
    "partitions": "/partitions?q=orders",
    "partition": f"/partition?{WHERE}",
    "brokers": "/broker?cluster=prod",
    "broker": "/broker?cluster=prod&broker=2",
    "alerts": "/alerts",
    "alert": f"/{ALERT}",
    "quality": "/quality",
}
RECORDED = {
    "overview": "/",
    "cluster": "/?cluster=unclean_election",
    "partition": "/partition?cluster=unclean_election&topic=clicks&partition=0",
    "brokers": "/broker?cluster=slow_follower",
    "partitions": "/partitions",
}


@dataclass
class Seen:
    """What a page did beside being shown."""

    said: list = field(default_factory=list)
    fetched: list = field(default_factory=list)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    lake = str(tmp_path_factory.mktemp("recorded") / "lake")
    write_recordings(lake)
    with served(lake, refresh_s=3600) as url:
        yield url


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    lake = str(tmp_path_factory.mktemp("large") / "lake")
    write_many(lake, 100_000)
    with served(lake, refresh_s=3600) as url:
        yield url


@pytest.fixture(scope="session")
def staged(tmp_path_factory):
    lake = str(tmp_path_factory.mktemp("staged") / "lake")
    incident(lake)
    with served(lake, refresh_s=3600, now=lambda: NOW) as url:
        yield url


def opened(browser, url, **context):
    """A page at a URL, with what it said and fetched since."""
    page, seen = browser.new_context(**context).new_page(), Seen()
    page.on("console", lambda message: seen.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.said.append(f"error: {error}"))
    page.on("request", lambda request: seen.fetched.append(request.url))
    page.goto(url)
    if page.locator("[data-spec]").count():
        page.locator("[data-spec]:not(:empty)").first.wait_for(timeout=60_000)
    return page, seen


def serious(page):
    """What axe-core calls serious or critical, with the element."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        (one["id"], node["html"][:160], node["failureSummary"])
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_sound(browser, staged, view, theme):
    page, seen = opened(browser, staged + VIEWS[view], color_scheme=theme)
    assert seen.said == []
    assert [url for url in seen.fetched if not url.startswith(staged)] == []
    assert serious(page) == []
    page.context.close()


@pytest.mark.parametrize("view", RECORDED)
def test_every_view_of_the_recordings_is_sound(browser, recorded, view):
    page, seen = opened(browser, recorded + RECORDED[view])
    assert seen.said == []
    assert [url for url in seen.fetched if not url.startswith(recorded)] == []
    assert serious(page) == []
    page.context.close()


def test_every_view_of_100_000_partitions_is_sound_and_small(browser, large):
    for view in MANY:
        page, seen = opened(browser, large + view)
        assert seen.said == []
        assert [url for url in seen.fetched if not url.startswith(large)] == []
        assert len(page.content()) < 150_000, view
        assert serious(page) == []
        page.context.close()


def test_an_error_is_a_page_too(browser, staged):
    page, _ = opened(browser, staged + "/?cluster=prd")
    assert "did you mean prod?" in page.inner_text("main")
    assert serious(page) == []
    page.context.close()


def test_the_theme_of_the_url_goes_over_that_of_the_system(browser, staged):
    page, _ = opened(browser, staged + "/?theme=dark", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(13, 17, 23)"
    page.goto(staged + "/alerts")
    assert page.evaluate(ground) == "rgb(13, 17, 23)"
    page.context.close()


def test_a_narrow_window_scrolls_no_page_sideways(browser, staged):
    for view in VIEWS.values():
        page, _ = opened(browser, staged + view, viewport={"width": 360, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        page.context.close()


def test_the_keyboard_is_enough(browser, staged):
    page, _ = opened(browser, staged + "/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    page.keyboard.type("orders-2")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="orders-2").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/partition?*")
    assert page.inner_text("h1") == "prod/orders-2"
    page.context.close()


def test_without_scripts_every_view_is_there(browser, staged):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(staged + VIEWS["partition"])
    assert "LOST: 180 offsets" in page.inner_text("main")
    assert page.get_by_role("link", name="The same as SVG").count() == 1
    page.context.close()


def test_an_open_page_follows_the_lake_and_keeps_what_the_reader_did(browser, tmp_path):
    lake = str(tmp_path / "lake")
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        page, seen = opened(browser, f"{url}/partition?{WHERE}")
        page.evaluate("document.getElementById('r1').focus(); window.kept = document.querySelector('[data-spec] svg')")
        write(lake, "hw_regressions", loss(ts=NOW, regression_id="r2", lost_from=400, lost_to=500, lost_records=100))
        page.get_by_text("280 offsets").first.wait_for(timeout=60_000)
        assert page.evaluate("document.activeElement.id") == "r1"
        page.get_by_text("lost: 400..499").wait_for(timeout=60_000)
        assert seen.said == []
        page.context.close()


def test_details_stay_open_and_a_changed_state_is_announced(browser, tmp_path):
    lake = str(tmp_path / "lake")
    reported(lake, 1, 2, 3, cluster="test")
    sound(lake, health("clicks", 0), health("orders", 0, cluster="test"))
    with served(lake, now=lambda: NOW) as url:
        page, seen = opened(browser, url)
        page.locator("details summary").last.click()
        write(lake, "hw_regressions", loss(ts=NOW))
        page.get_by_text("LOST: 180 offsets").first.wait_for(timeout=60_000)
        assert page.locator("details[open]").count() == 1
        assert page.inner_text("#announce").startswith("Now: prod: LOST: 180 offsets")
        assert seen.said == []
        page.context.close()


def test_a_page_that_could_not_be_refreshed_says_so(browser, tmp_path):
    lake = str(tmp_path / "lake")
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        page, _ = opened(browser, url)
        shutil.rmtree(lake)
        page.get_by_role("alert").wait_for(timeout=60_000)
        assert "Not up to date: this is how it was at 2026-09-01 12:01:25.000 UTC" in page.inner_text("#stale")
        page.context.close()


def _pages_asked(seen) -> list:
    """What was asked for, but scripts, styles and the icon: they may still be loading when a page can be read."""
    return [url for url in seen.fetched if "/static/" not in url]


def test_a_page_whose_updates_are_paused_asks_no_more(browser, tmp_path):
    lake = str(tmp_path / "lake")
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        page, seen = opened(browser, url)
        page.get_by_role("link", name="Pause updates").click()
        page.get_by_role("link", name="Resume updates").wait_for()
        asked = _pages_asked(seen)
        page.wait_for_timeout(2500)
        assert _pages_asked(seen) == asked
        page.context.close()
