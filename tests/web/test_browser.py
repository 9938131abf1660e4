"""The page in a real browser (Debian's Chromium): no error, nothing fetched from elsewhere, readable by everyone."""

import os
import shutil
from dataclasses import dataclass, field

import pytest

from tests.unit.project.lakes import at, health, loss, sound, write
from tests.web import staged as staged_lakes
from tests.web.lakes import ALERT, BROKER, INCIDENT, NOW, TOPIC, WHERE, incident
from tests.web.many import VIEWS as MANY
from tests.web.many import write_many
from tests.web.recorded import write_recordings
from tests.web.serving import served

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="Debian's chromium is not installed: apt-get install chromium"
)
VIEWS = {
    "overview": "/",
    "incidents": "/incidents",
    "incident": f"/{INCIDENT}",
    "alert": f"/{ALERT}",
    "brokers": "/brokers",
    "broker": f"/{BROKER}",
    "topics": "/topics",
    "topic": f"/{TOPIC}",
    "partitions": "/partitions?q=orders",
    "partition": f"/partition?{WHERE}",
    "quality": "/quality",
    "until": f"/partition?{WHERE}&until=2026-09-01T12:00:40",
}
RECORDED = {
    "overview": "/",
    "cluster": "/?cluster=unclean_election",
    "partition": "/partition?cluster=unclean_election&topic=clicks&partition=0",
    "brokers": "/brokers?cluster=slow_follower",
    "partitions": "/partitions",
}
DESK, PHONE = (1440, 900), (390, 844)
LEAST_PX = 13


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


@pytest.fixture(scope="session", params=staged_lakes.KINDS)
def one_of_four(request, tmp_path_factory):
    lake = str(tmp_path_factory.mktemp(request.param) / "lake")
    staged_lakes.write_lake(lake, request.param)
    with served(lake, refresh_s=3600, now=lambda: NOW) as url:
        yield url


def opened(browser, url, size=DESK, **context):
    """A page at a URL, with what it said and fetched since."""
    viewport = {"width": size[0], "height": size[1]}
    page, seen = browser.new_context(viewport=viewport, **context).new_page(), Seen()
    page.on("console", lambda message: seen.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.said.append(f"error: {error}"))
    page.on("request", lambda request: seen.fetched.append(request.url))
    page.goto(url)
    if page.locator("[data-spec]").count():
        page.locator("[data-spec]:not(:empty)").first.wait_for(timeout=60_000)
    return page, seen


def findings(page):
    """What axe-core finds, of any weight, with the element."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(one["id"], node["html"][:160], node["failureSummary"]) for one in found for node in one["nodes"]]


SMALL = """least => [...document.querySelectorAll("body *")].filter(e => [...e.childNodes].some(n => n.nodeType === 3 &&
  n.textContent.trim()) && e.checkVisibility() && parseFloat(getComputedStyle(e).fontSize) < least)
  .map(e => e.outerHTML)"""
"""Elements with text smaller than so many pixels."""
WIDE = "innerWidth => [...document.querySelectorAll('table')].filter(e => e.scrollWidth > innerWidth).length"


def check(page, seen, url, size):
    """That a page is sound: it says nothing, fetches nothing from elsewhere, is accessible, and fits its window."""
    assert seen.said == []
    assert [one for one in seen.fetched if not one.startswith(url)] == []
    assert findings(page) == []
    assert page.evaluate(SMALL, LEAST_PX) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    if size == PHONE:
        assert page.evaluate(WIDE, size[0]) == 0
    page.context.close()


@pytest.mark.parametrize(("size", "theme"), [(DESK, "light"), (PHONE, "dark")], ids=["desk", "phone"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_sound(browser, staged, view, size, theme):
    page, seen = opened(browser, staged + VIEWS[view], size, color_scheme=theme)
    check(page, seen, staged, size)


@pytest.mark.parametrize(("size", "theme"), [(PHONE, "light"), (DESK, "dark")], ids=["phone", "desk"])
def test_the_overview_is_sound_whatever_is_wrong(browser, one_of_four, size, theme):
    page, seen = opened(browser, one_of_four + "/?cluster=prod", size, color_scheme=theme)
    check(page, seen, one_of_four, size)


@pytest.mark.nightly
@pytest.mark.parametrize("width", [390, 1024, 1440])
@pytest.mark.parametrize("view", staged_lakes.VIEWS)
def test_every_view_is_sound_whatever_is_wrong(browser, one_of_four, view, width):
    page, seen = opened(browser, one_of_four + staged_lakes.VIEWS[view], (width, 900))
    seen.said = [one for one in seen.said if "404" not in one]  # a healthy lake has no incident
    check(page, seen, one_of_four, (width, 900))


@pytest.mark.parametrize("view", RECORDED)
def test_every_view_of_the_recordings_is_sound(browser, recorded, view):
    page, seen = opened(browser, recorded + RECORDED[view])
    check(page, seen, recorded, DESK)


@pytest.mark.nightly
def test_every_view_of_100_000_partitions_is_sound_and_small(browser, large):
    for view in MANY:
        page, seen = opened(browser, large + view)
        assert len(page.content()) < 150_000, view
        check(page, seen, large, DESK)


def test_an_error_is_a_page_too(browser, staged):
    page, _ = opened(browser, staged + "/?cluster=prd")
    assert "did you mean prod?" in page.inner_text("main")
    assert findings(page) == []
    page.context.close()


def test_the_theme_of_the_url_goes_over_that_of_the_system(browser, staged):
    page, _ = opened(browser, staged + "/?theme=dark", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(13, 17, 23)"
    page.goto(staged + "/incidents")
    assert page.evaluate(ground) == "rgb(13, 17, 23)"
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
    assert page.inner_text("h1").strip().startswith("prod/orders-2")
    page.context.close()


def test_without_scripts_every_view_is_there(browser, staged):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(staged + VIEWS["partition"])
    assert "offsets 120..299 (180) are gone" in page.inner_text("main")
    assert page.get_by_role("link", name="as SVG").count() == 1
    page.context.close()


def test_an_open_page_follows_the_lake_and_keeps_what_the_reader_did(browser, tmp_path):
    lake = str(tmp_path / "lake")
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        page, seen = opened(browser, f"{url}/partition?{WHERE}")
        page.evaluate("document.getElementById('r1').focus(); window.kept = document.querySelector('[data-spec] svg')")
        page.locator("#verdict summary").click()
        page.evaluate("document.getElementById('r1').focus()")
        write(lake, "hw_regressions", loss(ts=NOW, regression_id="r2", lost_from=400, lost_to=500, lost_records=100))
        page.get_by_text("280 offsets").first.wait_for(timeout=60_000)
        assert page.locator("#verdict[open]").count() == 1
        assert page.evaluate("document.activeElement.id") == "r1"
        page.get_by_text("lost (shaded): 120..299, 400..499").wait_for(timeout=60_000)
        assert seen.said == []
        page.context.close()


def test_details_stay_open_a_changed_state_is_announced_and_new_lines_wait(browser, tmp_path):
    lake = str(tmp_path / "lake")
    sound(lake, health("clicks", 0))
    write(lake, "telemetry_gaps", {"kind": "gap", "source_id": "broker-1/server.log", "ts": at(40)})
    with served(lake, now=lambda: NOW) as url:
        page, seen = opened(browser, url)
        page.locator("#all-sources summary").click()
        write(lake, "hw_regressions", loss(ts=NOW))
        page.get_by_role("button", name="1 new").wait_for(timeout=60_000)
        assert page.locator("#all-sources[open]").count() == 1
        assert page.inner_text("#announce").startswith("Now: prod: LOST: 180 offsets")
        assert page.locator("#happened li:visible").count() == 1
        page.get_by_role("button", name="1 new").click()
        assert page.locator("#happened li:visible").count() == 2
        assert seen.said == []
        page.context.close()


def test_times_are_said_in_the_browsers_zone_if_that_is_asked_for_and_copied_in_utc(browser, staged):
    page, _ = opened(browser, staged + "/incidents?zone=browser", timezone_id="Asia/Kolkata")
    time = page.locator("tbody time").first
    assert (time.get_attribute("datetime"), time.inner_text()[-8:]) == ("2026-09-01T12:00:30.000Z", "17:30:30")
    page.goto(staged + "/quality")
    assert page.locator("html").get_attribute("data-zone") == "browser"
    page.goto(staged + "/incidents?zone=utc")
    assert page.locator("tbody time").first.inner_text()[-8:] == "12:00:30"
    page.context.close()


def test_an_answer_of_the_gate_stands_below_the_button_and_grows_old(browser, staged):
    page, seen = opened(browser, f"{staged}/{BROKER}")
    page.clock.install()
    page.get_by_role("button", name="may I stop it?").click()
    page.locator("#gate-answer").wait_for()
    assert "asked" in page.inner_text("#gate-answer")
    page.clock.fast_forward(31_000)
    page.locator("#gate-answer.struck").wait_for()
    assert seen.said == []
    page.context.close()


def test_a_page_with_an_end_stands_still_and_leads_back_to_now(browser, staged):
    page, _ = opened(browser, f"{staged}/?until=2026-09-01T12:00:40")
    assert "As of 12:00:40 UTC, not now" in page.inner_text(".as-of")
    assert page.locator("#view[hx-get]").count() == 0
    page.get_by_role("link", name="now", exact=True).click()
    assert page.locator("#view[hx-get]").count() == 1
    page.context.close()


def test_a_page_that_could_not_be_refreshed_says_so(browser, tmp_path):
    lake = str(tmp_path / "lake")
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        page, _ = opened(browser, url)
        shutil.rmtree(lake)
        page.get_by_role("alert").wait_for(timeout=60_000)
        assert "Not up to date: this is how it was at 2026-09-01 12:01:25.000 UTC" in page.inner_text("#stale")
        assert findings(page) == []
        page.context.close()


def _pages_asked(seen) -> list:
    """What was asked for, but scripts, styles and the icon: they may still be loading when a page can be read."""
    return [url for url in seen.fetched if "/static/" not in url]


def test_a_page_whose_updates_are_paused_asks_no_more(browser, tmp_path):
    lake = str(tmp_path / "lake")
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        page, seen = opened(browser, url)
        page.locator("#menu summary").click()
        page.get_by_role("link", name="Pause updates").click()
        page.get_by_text("updates are paused").wait_for()
        asked = _pages_asked(seen)
        page.wait_for_timeout(2500)
        assert _pages_asked(seen) == asked
        page.context.close()


def test_a_refresh_shifts_nothing(browser, tmp_path):
    lake = str(tmp_path / "lake")
    staged_lakes.write_lake(lake, "gone")
    with served(lake, now=lambda: NOW) as url:
        page, seen = opened(browser, url, PHONE)
        page.evaluate(
            "new PerformanceObserver(list => { window.shift = list.getEntries().reduce((sum, e) => sum + e.value, "
            "window.shift ?? 0); }).observe({ type: 'layout-shift' })"
        )
        asked = len(_pages_asked(seen))
        page.wait_for_timeout(3500)
        assert len(_pages_asked(seen)) > asked
        assert page.evaluate("window.shift ?? 0") == 0
        page.context.close()


def test_a_pointer_on_the_chart_of_an_incident_tells_its_values(browser, tmp_path):
    lake = str(tmp_path / "lake")
    staged_lakes.write_lake(lake, "gone")
    with served(lake, refresh_s=3600, now=lambda: NOW) as url:
        page, seen = opened(browser, url + staged_lakes.VIEWS["incident"])
        box = page.locator(".steps").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 20)
        said = "in the minute from 12:00, at most: under-replicated 69 (60 s), under min ISR 0, offline 1 (60 s)"
        assert page.inner_text("#pointed") == said
        assert seen.said == []
        page.context.close()


@pytest.mark.parametrize(("zone", "said"), [("utc", "12:01:25"), ("browser", "17:31:25")])
def test_a_chart_and_what_a_pointer_tells_have_the_zone_that_is_asked_for(browser, tmp_path, zone, said):
    lake = str(tmp_path / "lake")
    staged_lakes.write_lake(lake, "cut_off")
    with served(lake, refresh_s=3600, now=lambda: NOW) as url:
        view = f"{url}{staged_lakes.VIEWS['partition']}&zone={zone}"
        page, seen = opened(browser, view, timezone_id="Asia/Kolkata")
        axis = page.locator('.chart [aria-label^="X-axis"]').first.get_attribute("aria-label")
        assert axis.endswith(f"to {said}")
        box = page.locator(".chart svg").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 120)
        page.locator("#vg-tooltip-element.visible").wait_for()
        assert f"2026-09-01 {'11' if zone == 'utc' else '17'}:" in page.inner_text("#vg-tooltip-element")
        assert seen.said == []
        page.context.close()


def test_the_axis_of_a_chart_goes_on_to_now_in_a_browser_too(browser, tmp_path):
    lake = str(tmp_path / "lake")
    staged_lakes.write_lake(lake, "cut_off")
    with served(lake, refresh_s=3600, now=lambda: NOW) as url:
        for view in ("partition", "broker"):
            page, seen = opened(browser, url + staged_lakes.VIEWS[view])
            axis = page.locator('.chart [aria-label^="X-axis"]').first.get_attribute("aria-label")
            assert axis.endswith("to 12:01:25")
            assert seen.said == []
            page.context.close()


@pytest.mark.nightly
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_200_clusters_and_a_lake_without_any_are_sound(browser, tmp_path, width):
    write(str(tmp_path / "empty"), "telemetry_gaps")
    staged_lakes.write_fleet(str(tmp_path / "fleet"))
    size = PHONE if width == PHONE[0] else (width, 900)
    for name in ("empty", "fleet"):
        with served(str(tmp_path / name), refresh_s=3600, now=lambda: NOW) as url:
            page, seen = opened(browser, url, size)
            assert len(page.content()) < 150_000
            check(page, seen, url, size)
