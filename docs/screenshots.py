"""Screenshots of pages for ``docs/guides/``: ``PYTHONPATH=. python docs/screenshots.py [stepping]``, with Chromium.

Those of a cluster show a week of 2,000 jobs on 2,048 cores, which never ran. ``stepping`` makes those of scenarios.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from oarpy.local_cluster.sandbox import Sandbox, Settings, command
from research.benchmarks.busy_week import fill
from research.benchmarks.web import CHROMIUM, FLAGS, log_in, served, token

FOLDER = Path(__file__).parent / "guides" / "web"
Scheme = Literal["light", "dark"]
SHOTS: tuple[tuple[str, str, Scheme, int, int], ...] = (
    ("cluster", "/cluster", "light", 1200, 760),
    ("gantt", "/gantt?span=3+days", "dark", 1200, 760),
    ("jobs", "/jobs?state=Running", "light", 1200, 560),
    ("job", "/jobs/1500", "dark", 1200, 760),
    ("accounting", "/accounting", "light", 1200, 700),
    ("narrow", "/cluster", "light", 400, 760),
)


CASES = Path(__file__).parent / "cases" / "simulate"
STEPS: tuple[tuple[str, str, Scheme, int, int], ...] = (
    ("stepping", "#scenario=0&step=6", "light", 1200, 900),
    ("stepping-two", "#scenario=0&step=6&left=bags.policy:plb&right=bags.policy:nolb", "dark", 1200, 900),
)


def main() -> int:
    """Make all of them anew."""
    if not os.path.exists(CHROMIUM):
        sys.stderr.write(f"no {CHROMIUM}: apt-get install chromium\n")
        return 1
    FOLDER.mkdir(exist_ok=True)
    _shoot_stepping()
    if sys.argv[1:] == ["stepping"]:
        return 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    settings: Settings = {
        "web": {"requests_per_minute": 0},
        "log": {"level": "warning"},
        "mail": {"cluster_name": "cluster.example.org"},
    }
    with tempfile.TemporaryDirectory(prefix="oarpy-shots-") as folder:
        sandbox = Sandbox(Path(folder), settings)
        try:
            sandbox.create()
            fill(sandbox.dsn(), 2000, 64, 32)
            with served(sandbox, port):
                _shoot(f"http://127.0.0.1:{port}", token(sandbox, "root"))
        finally:
            sandbox.discard()
    return 0


def _shoot(address: str, secret: str) -> None:
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for name, path, scheme, width, height in SHOTS:
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})
            page.set_default_timeout(60_000)
            log_in(page, address, secret)
            page.goto(address + path)
            if page.locator("[data-cells], [data-gantt]").count():
                page.locator("[data-drawn]").wait_for()
            page.locator('[data-live-state][data-state="on"]').wait_for()
            page.locator("[data-load][aria-busy]").first.wait_for(state="detached")
            _save(page, name)
            page.close()
        browser.close()


def _shoot_stepping() -> None:
    words = [
        command("oarpy"),
        "grid",
        "simulate",
        *(str(CASES / f"{name}.json") for name in ("bags", "flexco")),
        "--web",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as running:
        assert server.stdout is not None
        link = server.stdout.readline().strip()
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for name, where, scheme, width, height in STEPS:
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})
            page.goto(link + where)
            page.wait_for_function("window.stepping")
            page.evaluate("stepping.idle()")
            page.keyboard.press("s")
            page.evaluate("stepping.idle()")
            _save(page, name)
            page.close()
        browser.close()
        server.terminate()


def _save(page: Page, name: str) -> None:
    file = FOLDER / f"{name}.png"
    page.screenshot(path=str(file))
    # few colours: a third of the size
    Image.open(file).convert("RGB").quantize(128).save(file, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main())
