"""The report in a browser: Debian's Chromium (`apt-get install chromium`), with no network, from a disk."""

import re
import shutil
import time

import pytest
import stores

from xbench.reports.html import content
from xbench.reports.html import page as made

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "<img src=x onerror=alert(1)></script>"
# The contrast of every text against its background (WCAG 2.2, 1.4.3), the lowest first.
CONTRAST = """() => {
  const numbers = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const found = numbers(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest("script, style")) continue;
    const inside = node.closest("svg");
    const style = getComputedStyle(node);
    const back = behind(inside ? inside.parentElement : node);
    const [a, b] = [light(numbers(inside ? style.fill : style.color)), light(back)];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), walker.currentNode.textContent.trim().slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}"""


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("Chromium is missing: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    records = stores.suite(runtimes=(*stores.SPEED, "tvm"), blocks=4)
    records += [stores.record("lenet", "torch", threads=1, batch=8), stores.record("lenet", EVIL, status="FAIL")]
    others = {
        "training": [stores.training(), stores.training(runtime="jax")],
        "phases": [stores.phases(), stores.phases(runtime="jax")],
    }
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(made(records, others, problems=["results.jsonl, line 3: not JSON"]))
    return path


@pytest.fixture
def opened(browser):
    """Open a file and collect what went wrong: a message on the console, a request that is not the file itself."""
    wrong: list[str] = []
    contexts = []

    def opened(path, **options):
        context = browser.new_context(offline=True, **{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda message: wrong.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        tab.on("request", lambda request: request.url == path.as_uri() or wrong.append(f"request: {request.url}"))
        tab.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        tab.goto(path.as_uri())
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def draw_all(page) -> None:
    """Open what is closed and scroll past everything, so that every picture is drawn."""
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    for place in page.locator(".plot, .plots").all():
        place.scroll_into_view_if_needed()
    until(page, "[...document.querySelectorAll('.plot, .plots')].every(each => each.dataset.drawn !== undefined)")
    until(
        page, "[...document.querySelectorAll('.canvas')].every(each => each.querySelector('svg') || each.textContent)"
    )


def until(page, condition: str) -> None:
    """Wait until a condition holds; Playwright's own way needs `eval`, which the page forbids."""
    end = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def lines(page, selector: str) -> list[str]:
    return [text for text in page.locator(selector).all_inner_texts()]


def test_every_picture_is_drawn_and_says_what_it_is(opened, file):
    page = opened(file)
    draw_all(page)
    shown = page.locator(".canvas svg")
    assert shown.count() > 10 and page.get_by_text("could not be drawn").count() == 0
    for name in ("ratios", "roofline", "memory", "phases"):
        assert page.locator(f"[data-plot={name}] svg [aria-roledescription]").count() > 2, name
    for name in ("spread", "batch", "threads", "start", "training"):
        assert page.locator(f"[data-plots={name}] svg").count(), name
    assert page.locator("[data-plots=training] svg").count() == 4, "losses, accuracies, memory, power"
    described = page.locator("[data-plot=ratios] [role=graphics-document]").first.get_attribute("aria-label")
    assert described.startswith("How many times as long")


def test_filters_leave_what_they_say(opened, file):
    page = opened(file)
    everything = page.locator("#verdicts tbody tr:visible").count()
    assert everything == 9 and page.locator("output").inner_text() == "58 cells of 58 in 9 groups"
    page.locator("#filters [data-by=m]").select_option(label="lenet")
    page.locator("#filters [data-by=o]").select_option(label="step")
    assert page.locator("output").inner_text() == "14 cells of 58 in 2 groups"
    assert {line.split("\t")[0] for line in lines(page, "#verdicts tbody tr:visible")} == {"lenet"}
    assert page.locator(".heat tbody tr:visible").count() == 1
    assert page.locator("details.net:visible").count() == 1
    page.locator("details.net:visible > summary").click()
    assert page.locator(".net tbody th[scope=row]:visible").all_inner_texts().count("torch") == 2
    page.locator(".chip", has_text=re.compile("^torch$")).click()
    assert "torch" not in page.locator(".net tbody th[scope=row]:visible").all_inner_texts()
    assert page.locator(".chip", has_text=re.compile("^torch$")).get_attribute("aria-pressed") == "false"
    assert page.locator("output").inner_text() == "12 cells of 58 in 2 groups"
    box = "document.querySelector('[data-plot=ratios]')"
    until(page, f"{box}.querySelector('svg') && !/resnet50|forward/.test({box}.textContent)")
    page.get_by_role("button", name="Reset").click()
    assert page.locator("#verdicts tbody tr:visible").count() == everything


def test_tables_are_sorted_by_what_they_show(opened, file):
    page = opened(file)
    head = page.locator("#verdicts thead th").nth(4)
    units = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}

    def times() -> list[float]:
        words = [line.split("\t")[4].split(" ") for line in lines(page, "#verdicts tbody tr")]
        return [float(number) * units[unit] for number, unit in words]

    before = times()
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending" and times() == sorted(before) != before
    page.keyboard.press("Enter")  # the button has the focus
    assert head.get_attribute("aria-sort") == "descending" and times() == sorted(before, reverse=True)
    page.locator("details.net > summary").first.click()
    table = page.locator(".net table").first
    table.locator("thead th").first.get_by_role("button").click()
    group = table.locator("tbody").nth(2)
    names = group.locator("tr:not(.g, .c) th").all_inner_texts()
    assert names == sorted(names) and len(names) == 7
    assert (
        group.locator("tr").last.get_attribute("class") == "c"
        and group.locator("tr").first.get_attribute("class") == "g"
    )


def test_the_matrix_opens_to_the_worst_tensor(opened, file):
    page = opened(file)
    place = page.locator(".heat td.bad a").first
    place.click()
    dialog = page.get_by_role("dialog")
    assert "output/relu_3" in dialog.inner_text() or "weight/relu_3" in dialog.inner_text()
    assert "noise floors" in dialog.inner_text() and "xbench time" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    place.click()
    dialog.get_by_role("link").click()
    row = page.locator(place.get_attribute("href"))
    assert row.is_visible() and "FAIL" in row.inner_text() and "relu_3" in row.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_are_legible(opened, file, scheme):
    page = opened(file, color_scheme=scheme)
    draw_all(page)
    for _ in range(2):
        contrasts = page.evaluate(CONTRAST)
        assert len(contrasts) > 500 and contrasts[0][0] >= 4.5, contrasts[:5]
        page.locator("#scheme").click()  # and the other one, by its button
        page.wait_for_timeout(300)
        draw_all(page)
    dark = "rgb(19, 21, 24)"
    assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == dark) == (scheme == "dark")


def test_without_javascript_the_tables_are_there(opened, file):
    page = opened(file, java_script_enabled=False)
    assert page.locator("#verdicts tbody tr:visible").count() == 9
    assert not page.locator("#filters").is_visible() and not page.locator(".plot").first.is_visible()
    page.locator("details.net > summary").first.click()
    assert page.locator(".net td:visible").count() > 100
    page.locator(".heat td.bad a").first.click()  # a link to the row
    assert page.locator(page.url[page.url.index("#") :]).is_visible()


def test_a_phone_scrolls_tables_and_not_the_page(opened, file):
    page = opened(file, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.querySelectorAll('.scroll')].some(each => each.scrollWidth > each.clientWidth)")


def test_names_with_html_in_them_are_shown_as_they_are(opened, file):
    page = opened(file)
    draw_all(page)
    assert page.locator("main img").count() == 0
    assert page.get_by_role("button", name=EVIL).count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_has_all_of_it_in_black_on_white(opened, file, scheme):
    page = opened(file, color_scheme=scheme)
    draw_all(page)
    page.emulate_media(media="print")
    assert not page.locator("#filters").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(CONTRAST)[0][0] >= 4.5
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", pdf)) > 5


def test_ten_thousand_records_answer_within_three_seconds(opened, tmp_path):
    path = tmp_path / "big.html"
    path.write_text(made(stores.ten_thousand()))
    begun = time.monotonic()
    page = opened(path)
    page.locator("#filters [data-by=m]").select_option(label="network_number_7")
    assert page.locator("output").inner_text() == "252 cells of 10,000 in 36 groups"
    taken = time.monotonic() - begun
    assert page.locator("#verdicts tbody tr:visible").count() == 36
    assert taken < 3 * patience(), taken


def test_filters_choose_within_the_one_table_of_very_many_networks(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(content, "MANY_NETWORKS", 20)
    path = tmp_path / "wide.html"
    path.write_text(made(stores.spread_out(100, 25, 2)))
    page = opened(path)
    assert page.locator("details.net").count() == 1
    page.locator("#filters [data-by=m]").select_option(label="network_number_7")
    page.locator("details.net > summary").click()
    headings = page.locator(".net tr.g:visible").all_inner_texts()
    assert len(headings) == 2 and all(each.startswith("network_number_7 ") for each in headings)
    until(page, "document.querySelectorAll('.net .plots svg').length === 2")
    captions = page.locator(".net figcaption").all_inner_texts()
    assert sorted(captions) == sorted(each.strip() for each in headings)
    page.get_by_role("button", name="Reset").click()
    columns = page.locator(".heat thead th:visible").count()
    page.locator(".chip", has_text=re.compile("^openvino$")).click()
    assert page.locator(".heat thead th:visible").count() == columns - 1
    first = page.locator(".heat tbody tr:visible").first
    assert first.locator("th:visible, td:visible").count() == columns - 1
    assert "openvino" not in page.locator(".net tbody th[scope=row]:visible").all_inner_texts()


def patience() -> float:
    """Processes per CPU at present, at least 1: on a busy machine three seconds are not three seconds."""
    import os

    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
