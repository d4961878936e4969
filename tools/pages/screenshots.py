"""Pictures of `xbench report` for the README: `make screenshots`. They show the store of the last `make run`.

docs/report-light.png is the top of the page, docs/report-dark.png the parity matrix and the cells of a network.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[2] / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SIZE = {"width": 1280, "height": 1120}


def drawn(page: Any) -> None:
    """Wait until every picture in view is drawn."""
    page.wait_for_timeout(500)
    while page.evaluate(
        "[...document.querySelectorAll('.canvas')].some(each => each.checkVisibility() && !each.firstChild "
        "&& each.getBoundingClientRect().top < innerHeight)"
    ):
        page.wait_for_timeout(100)
    page.wait_for_timeout(500)


def taken(page: Any, path: Path) -> None:
    """Save the current view."""
    page.screenshot(path=path)
    Image.open(path).convert("RGB").save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def main(xbench: str, store: str = "xbench-results") -> None:
    if not CHROMIUM:
        sys.exit("Chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder) / "report.html"
        subprocess.run([xbench, "report", "--out", store, "--output", str(report)], check=True)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(report.as_uri())
            if scheme == "dark":
                page.locator("details.net > summary").first.click()
                drawn(page)
                page.evaluate("document.querySelector('#filters').style.position = 'static'")
                page.evaluate("scrollTo(0, document.querySelector('#parity').getBoundingClientRect().top + scrollY)")
            drawn(page)
            taken(page, DOCS / f"report-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
