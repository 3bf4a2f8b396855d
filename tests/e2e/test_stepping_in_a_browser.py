"""The page that steps through scenarios and traces, in Chromium: what it shows is what the commands print."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from oarpy.grid.simulation.command import run_of
from oarpy.local_cluster.sandbox import command
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.stepping.stepped_run import Stop, plain, play
from oarpy.simulation.stepping.trace_command import read_stepped
from oarpy.simulation.workloads.generate import run_generate
from tests.harness.browser import browser, troubles
from tests.prop.grid.random_systems import random_queues, random_scenario

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.e2e

SYSTEMS = ("queues", "windows", "flexco", "offers", "bags")


@contextmanager
def served(*words: str) -> Iterator[str]:
    """Serve the page; yield its link."""
    with subprocess.Popen([command("oarpy"), *words, "--web"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link = server.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", link), link
            yield link
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Scenarios of each system that have many events."""
    folder, found = tmp_path_factory.mktemp("scenarios"), {}
    for system in SYSTEMS:
        make = random_queues if system == "queues" else lambda seed, of=system: random_scenario(of, seed)
        text = max((json.dumps(make(seed)) for seed in range(20)), key=len)
        found[system] = folder / f"{system}.json"
        found[system].write_text(text)
    return found


@pytest.fixture(scope="module")
def link(scenarios: dict[str, Path]) -> Iterator[str]:
    with served("grid", "simulate", *map(str, scenarios.values())) as address:
        yield address


@contextmanager
def opened(chromium: Browser, address: str) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1100, "height": 900})
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    page.wait_for_function("window.stepping")
    idle(page)
    yield page
    context.close()
    assert not wrong


def idle(page: Page) -> None:
    """Wait until the page has what it asked for."""
    page.evaluate("stepping.idle()")


def shown(page: Page, pane: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(f"stepping.object({pane})")
    return found


def wander(page: Page, printed: Any, times: int, seed: int) -> None:
    """Step, go back and run on at random; the page has what is printed for its step."""
    dice, known = Random(seed), {}
    for _ in range(times):
        now = shown(page)["now"]
        match dice.choice(["step", "step", "back", "until"]):
            case "until":
                page.fill("[data-until]", str((now or 0) + dice.choice([0, 1, 3, 8])))
                page.click("[data-do=until]")
            case act:
                page.click(f"[data-do={act}]")
        idle(page)
        if dice.random() < 0.03:
            page.click("[data-do=all]")
            idle(page)
        found = shown(page)
        step = found["steps"]
        if step not in known:
            known[step] = printed(step)
        assert found == known[step]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_page_has_what_steps_prints(chromium: Browser, link: str, scenarios: dict[str, Path], system: str) -> None:
    text = scenarios[system].read_text()
    with opened(chromium, f"{link}#scenario={SYSTEMS.index(system)}") as page:
        wander(page, lambda step: plain(dict(play(run_of(text), Stop(steps=step)))), 70, len(system))


def test_a_trace_has_what_steps_prints(chromium: Browser, tmp_path: Path) -> None:
    trace = tmp_path / "made.swf"
    run_generate("lublin", 16, jobs=40, seed=2, output=trace)
    read = read_stepped(trace, Machine(16), ["conservative"], "fifo", None, None)
    words = ("simulate", "--trace", str(trace), "--procs", "16", "--policy", "conservative")
    with served(*words) as address, opened(chromium, address) as page:
        wander(page, lambda step: plain(dict(play(read.run_of("conservative"), Stop(steps=step)))), 40, 1)
        page.select_option("[data-choice=policy]", "easy")
        idle(page)
        step = shown(page)["steps"]
        assert shown(page) == plain(dict(play(read.run_of("easy"), Stop(steps=step))))


def test_two_browsers_do_not_disturb_each_other(chromium: Browser, link: str, scenarios: dict[str, Path]) -> None:
    text, dice = scenarios["queues"].read_text(), Random(3)
    with opened(chromium, link) as one, opened(chromium, link) as other:
        for _ in range(20):
            page = dice.choice([one, other])
            page.click(f"[data-do={dice.choice(['step', 'step', 'back'])}]")
            idle(page)
            for each in (one, other):
                assert shown(each) == plain(dict(play(run_of(text), Stop(steps=shown(each)["steps"]))))


def test_the_keyboard_alone(chromium: Browser, link: str) -> None:
    with opened(chromium, f"{link}#scenario=1") as page:
        for keys, step in (("sss", 3), ("b", 2), ("a", None), ("b", None)):
            for key in keys:
                page.keyboard.press(key)
                idle(page)
            assert step is None or shown(page)["steps"] == step
        assert f"Event {shown(page)['steps']} of {shown(page)['steps'] + 1}" in page.inner_text("[data-where]")
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
        everything = page.evaluate(
            "[...document.querySelectorAll('button, select, input, canvas, summary, textarea')]"
            ".filter((one) => one.checkVisibility() && !one.disabled).map((one) => one.outerHTML.slice(0, 200))"
        )
        assert set(everything) <= reached


def test_axe_finds_nothing(chromium: Browser, link: str) -> None:
    for number in range(len(SYSTEMS)):
        with opened(chromium, f"{link}#scenario={number}&step=4&right=-") as page:
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
                assert troubles(page) == []
            page.set_viewport_size({"width": 400, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= 400
            assert troubles(page) == []


def test_a_link_holds_scenario_step_zoom_choices_and_text(
    chromium: Browser, link: str, scenarios: dict[str, Path]
) -> None:
    with opened(chromium, f"{link}#scenario=1") as page:
        document = json.loads(scenarios["windows"].read_text())
        document["jobs"] = document["jobs"][:2]
        page.evaluate("document.querySelector('[data-editing]').open = true")
        page.fill("[data-text]", json.dumps(document))
        page.click("[data-do=edit]")
        idle(page)
        page.select_option("[data-choice='windows.order']", "lff")
        idle(page)
        page.keyboard.press("Escape")
        page.click("[data-do=step]")
        page.click("[data-do=in]")
        idle(page)
        page.evaluate("stepping.written()")
        address, before = page.url, shown(page)
        assert (len(before["jobs"]), before["steps"]) == (2, 1)
        page.fill("[data-text]", "{}")
        page.click("[data-do=edit]")
        idle(page)
        assert "clusters" in page.inner_text("[data-error]")
        assert shown(page) == before
    with opened(chromium, address) as page:
        assert shown(page) == before
        page.evaluate("stepping.written()")
        assert page.url == address
        assert page.input_value("[data-choice='windows.order']") == "lff"


def test_where_two_choices_part(chromium: Browser, link: str, scenarios: dict[str, Path]) -> None:
    text = scenarios["bags"].read_text()
    own = json.loads(text)["bags"].get("policy", "plb")
    other = "plb" if own == "nolb" else "nolb"
    with opened(chromium, f"{link}#scenario=4&left=bags.policy:{own}&right=bags.policy:{other}") as page:
        page.click("[data-do=part]")
        idle(page)
        said = page.inner_text("[data-parted]")
        states = [
            [dict(play(run_of(_with_policy(text, name)), Stop(steps=step))) for step in range(80)]
            for name in (own, other)
        ]
        first = next((step for step in range(80) if states[0][step] != states[1][step]), None)
        assert said == f"They part at event {first}." if first else said.startswith("They are equal")
        if first:
            assert shown(page, 0) != shown(page, 1)
        page.select_option(".pane:nth-child(2) [data-choice='bags.policy']", "")
        idle(page)
        page.click("[data-do=part]")
        idle(page)
        assert page.inner_text("[data-parted]").startswith("They are equal in all")


def _with_policy(text: str, name: str) -> str:
    document = json.loads(text)
    return json.dumps({**document, "bags": {**document["bags"], "policy": name}})


def test_another_choice_of_either_pane_stays_at_the_event(chromium: Browser, link: str) -> None:
    with opened(chromium, f"{link}#scenario=1&step=4&right=-") as page:
        for pane, order in ((1, "lff"), (2, "fifo"), (1, "bjf")):
            page.select_option(f".pane:nth-child({pane}) [data-choice='windows.order']", order)
            idle(page)
            assert [shown(page, place)["steps"] for place in (0, 1)] == [4, 4]


def test_a_step_beyond_the_end_is_the_end(chromium: Browser, link: str) -> None:
    with opened(chromium, f"{link}#scenario=1&step=999999") as page:
        beyond = shown(page)
        page.click("[data-do=all]")
        idle(page)
        assert shown(page) == beyond
        assert 0 < beyond["steps"] < 999999


@pytest.mark.parametrize("broken", ["text=%25", "text=AAAA", "left=windows.order:none", "right=windows.order:none"])
def test_a_broken_link_opens_the_scenario_and_says_so(chromium: Browser, link: str, broken: str) -> None:
    with opened(chromium, f"{link}#scenario=1&step=3&{broken}") as page:
        assert page.inner_text("[data-error]").startswith("The link cannot be followed: ")
        page.click("[data-do=step]")
        idle(page)
        assert shown(page)["steps"] == 1
        assert not page.is_visible("[data-error]")


def status_of(address: str, host: str | None = None) -> int:
    request = urllib.request.Request(address, headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_nobody_enters_without_the_token_and_nothing_else_is_read(link: str) -> None:
    root = link.rsplit("/", 2)[0]
    assert status_of(link) == 200
    for path in ("", "/", "/foreign/", f"/{'x' * 32}/go", "/static/style.css"):
        assert status_of(root + path) == 403
    assert status_of(link, host="elsewhere.example") == 400
    for path in (
        "static/%2e%2e/%2e%2e/pyproject.toml",
        "scenario/..%2f..",
        "scenario/9",
        "static//etc/passwd",
        "etc/passwd",
    ):
        assert status_of(link + path) in (400, 404)


def test_what_cannot_be_served_is_told_in_a_line(scenarios: dict[str, Path], tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run([command("oarpy"), *words], capture_output=True, text=True, timeout=120, check=False)
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)
        return done.returncode, done.stderr

    good, none = str(scenarios["queues"]), tmp_path / "none.json"
    none.write_text("[]")
    assert run("grid", "simulate", good, str(none), "--web")[0] == 2
    assert run("grid", "simulate", str(tmp_path / "absent"), "--web")[0] == 2
    assert run("grid", "simulate", good, "--web", "--steps", "3")[0] == 2
    assert run("grid", "simulate", good, "--web", "--places")[0] == 2
    assert run("grid", "simulate", good, "--places")[0] == 2
    assert run("simulate", "--from-database", "--places")[0] == 2
    assert run("simulate", "--trace", good, "--procs", "4", "--places")[0] == 2
    assert run("simulate", "--trace", good, "--procs", "4", "--policy", "easy", "--web", "--places")[0] == 2
    assert run("grid", "simulate", good, "--port", "8080")[0] == 2
    assert run("simulate", "--from-database", "--web")[0] == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        status, line = run("grid", "simulate", good, "--web", "--port", port)
        assert (status, f"--port {port}" in line) == (1, True)
