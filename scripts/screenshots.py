"""Takes the pictures of docs/visualizer.md and the README: `.venv/bin/python scripts/screenshots.py`.

It starts `penstock serve --demo`, waits until the windows are full, changes the routing, and opens the pages
in the system's Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
SIZE = {"width": 1360, "height": 850}


def main() -> None:
    """Take all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("screenshots: needs Chromium (Debian: apt-get install chromium)")
    program = [sys.executable, "-m", "penstock.cli.main", "serve", "--demo", "--port", "0"]
    env = {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if "Penstock is at" in line)
        link = line.split()[3]  # with the token, which a browser exchanges for a cookie
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            take(browser, link)
            browser.close()
    finally:
        server.terminate()
        server.wait(60)


def take(browser: Any, link: str) -> None:
    """The pages in light, the demo also in dark and on a narrow window."""
    url = link.partition("/demo")[0]
    page = browser.new_page(viewport=SIZE)
    page.goto(link)
    page.wait_for_selector("[data-box]", timeout=180_000)
    page.wait_for_timeout(25_000)  # ten minutes of the streams' time, and a little more
    change_routing(page)
    change_routing(page)
    page.get_by_role("button", name="Change the routing now").blur()
    shoot(page, "visualizer_demo")
    page.goto(f"{url}/plan")
    page.locator('[data-box^="1/mjoin"]').click()
    page.wait_for_timeout(5_000)
    shoot(page, "visualizer_plan")
    for name in ("graphs", "decisions"):
        page.goto(f"{url}/{name}")
        page.wait_for_timeout(5_000)
        shoot(page, f"visualizer_{name}")
    page.goto(f"{url}/try")
    page.wait_for_selector("svg.lanes")
    page.wait_for_timeout(1_000)
    shoot(page, "visualizer_try")
    page.close()
    dark = browser.new_page(viewport=SIZE, color_scheme="dark")
    dark.goto(link)
    dark.wait_for_selector("main")
    dark.goto(f"{url}/plan")
    dark.wait_for_selector("[data-box]")
    dark.wait_for_timeout(4_000)
    shoot(dark, "visualizer_dark")
    dark.close()


def change_routing(page: Page) -> None:
    """Change the routing, and wait until the order of O's probes has followed it."""
    before = page.locator(".facts .v").last.inner_text()
    page.get_by_role("button", name="Change the routing now").click()
    followed = "t => [...document.querySelectorAll('.facts .v')].pop().innerText != t"
    page.wait_for_function(followed, arg=before, timeout=180_000)
    page.wait_for_timeout(4_000)


def shoot(page: Page, name: str) -> None:
    """Write what the page shows to docs/images."""
    page.screenshot(path=IMAGES / f"{name}.png")
    print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
