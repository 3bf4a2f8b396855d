"""A browser without a screen, and pages of a cluster in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from research.benchmarks.web import CHROMIUM, FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SERIOUS = ("serious", "critical")


@contextmanager
def browser() -> Iterator[Browser]:
    """Run Chromium; skip the test, saying what is missing, where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium (make services does it as root)")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


def troubles(page: Page) -> list[str]:
    """Return what axe-core finds serious on a page: the rule, and the elements."""
    script = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page.evaluate(script)
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {json.dumps([node['target'] for node in one['nodes'][:3]])}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]
