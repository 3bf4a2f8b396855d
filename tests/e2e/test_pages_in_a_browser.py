"""Pages in Chromium on a cluster that runs: jobs come by command, their states arrive by themselves."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from research.benchmarks.web import log_in
from tests.harness.browser import browser, troubles
from tests.harness.waiting import DEADLINE, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.e2e

_PATIENCE = DEADLINE * 1000
PAGES = (
    "/cluster",
    "/cluster/week",
    "/submit",
    "/jobs",
    "/gantt",
    "/reservations",
    "/maintenance",
    "/queues",
    "/accounting",
    "/nodes/n1",
    "/admin",
    "/admin/rules",
)
PAGES_OF_ADMINS = ("/admin/rules/default_queue", "/admin/quotas", "/admin/audit", "/confirm/drain?node=n1")


class Site:
    """A cluster with its pages at ``address``."""

    def __init__(self, cluster: Sandbox, address: str) -> None:
        self.cluster = cluster
        self.address = address

    def token(self, scope: str) -> str:
        """Make a token by the command."""
        found = re.search(r"oarpy_\S+", self.cluster.run("oartoken", "new", "--scope", scope).stdout)
        assert found is not None
        return found[0]


@contextmanager
def _web(cluster: Sandbox, port: int) -> Iterator[Site]:
    words = [command("oarpy"), "web", "--listen", f"127.0.0.1:{port}"]
    log = cluster.directory / "web.log"
    with log.open("wb") as written, subprocess.Popen(words, env=cluster.environment(), stderr=written) as process:
        try:
            until(lambda: _answers(port) or process.poll() is not None, "the web process")
            assert process.poll() is None, log.read_text()
            yield Site(cluster, f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def site(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]
) -> Iterator[Site]:
    settings: Settings = {"web": {"requests_per_minute": 0}, "database": cluster_database}
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={2}")
    with (
        running_sandbox(tmp_path_factory.mktemp("pages"), settings, nodes) as cluster,
        _web(cluster, _free_port()) as found,
    ):
        yield found


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    """A page of an admin who is logged in; nothing on it may fail."""
    context = chromium.new_context()
    context.set_default_timeout(_PATIENCE)
    opened = context.new_page()
    failures: list[str] = []
    opened.on("pageerror", lambda error: failures.append(str(error)))
    opened.on("console", lambda said: failures.append(said.text) if said.type == "error" else None)
    log_in(opened, site.address, site.token("admin"))
    yield opened
    context.close()
    assert failures == []


def test_a_state_arrives_without_reloading(site: Site, page: Page) -> None:
    page.goto(f"{site.address}/jobs")
    page.evaluate("window.neverReloaded = true")
    gate = site.cluster.directory / "gate"
    (job,) = site.cluster.job_ids(
        "-n", "watched", "-l", "/core=1", f"sh -c 'while [ ! -e {gate} ]; do sleep 0.1; done'"
    )
    row = page.locator(f'tr[data-row="{job}"]')
    row.locator(".state.Running").wait_for()
    page.goto(f"{site.address}/jobs/{job}")
    page.evaluate("window.neverReloaded = true")
    gate.touch()
    page.locator("#headline .state.Terminated").wait_for()
    assert page.evaluate("window.neverReloaded") is True
    # its course, in the order of states
    course = page.locator("#course .steps .state").all_inner_texts()
    assert course[0] == "Waiting"
    assert course[-1] == "Terminated"


def test_a_waiting_job_says_why(site: Site, page: Page) -> None:
    (long,) = site.cluster.job_ids("-l", "/nodes=2,walltime=1:0:0", "sleep 3600")
    site.cluster.wait_for([long], ["Running"], DEADLINE)
    (waits,) = site.cluster.job_ids("-l", "/core=1", "date")
    try:
        page.goto(f"{site.address}/jobs/{waits}")
        page.get_by_text("Predicted start").wait_for()
        page.goto(f"{site.address}/jobs?state=Waiting")
        assert page.locator("tbody tr").count() == 1
    finally:
        site.cluster.run("oardel", str(long), str(waits))
        site.cluster.wait_for([long], ["Error"], DEADLINE)


def test_filters_are_in_the_address(site: Site, page: Page) -> None:
    jobs = site.cluster.job_ids("-n", "needle", "-l", "/core=1", "true") + site.cluster.job_ids("-l", "/core=1", "true")
    site.cluster.wait_for(jobs, ["Terminated"], DEADLINE)
    page.goto(f"{site.address}/jobs")
    page.get_by_label("Name").fill("need")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url(re.compile(r"name=need"))
    assert page.locator("tbody tr").count() == 1
    assert "queue=" not in page.url  # what is empty stays out of it
    page.reload()
    assert page.locator("tbody tr").count() == 1


def test_the_end_of_the_output_is_shown_to_its_owner(site: Site, page: Page) -> None:
    (job,) = site.cluster.job_ids("-l", "/core=1", "echo '<b>all-done</b>'")
    site.cluster.wait_for([job], ["Terminated"], DEADLINE)
    page.goto(f"{site.address}/jobs/{job}")
    output = page.locator("pre", has_text="all-done")
    output.wait_for()
    assert output.inner_html().strip() == "&lt;b&gt;all-done&lt;/b&gt;"


def test_an_output_that_grows_is_followed(site: Site, page: Page) -> None:
    gate = site.cluster.directory / "more"
    (job,) = site.cluster.job_ids(
        "-l", "/core=1", f"echo first; while [ ! -e {gate} ]; do sleep 0.1; done; seq 500; echo last"
    )
    site.cluster.wait_for([job], ["Running"], DEADLINE)
    page.goto(f"{site.address}/jobs/{job}/output")
    output = page.get_by_label("Standard output")
    output.get_by_text("first").wait_for()
    page.evaluate("window.neverReloaded = true")
    gate.touch()
    page.get_by_text("last").wait_for()
    assert page.evaluate("window.neverReloaded") is True
    assert output.evaluate("text => text.scrollHeight - text.scrollTop - text.clientHeight") < 24
    page.locator("[data-follow]").wait_for(state="detached")


def test_a_script_is_answered_as_it_is_typed_and_submitted(site: Site, page: Page) -> None:
    page.goto(f"{site.address}/jobs")
    page.get_by_role("link", name="Submit a job").click()
    answer = page.locator("#answer")
    page.get_by_label("Script").fill("#!/bin/sh\necho typed-in-a-browser\n\n\n")
    answer.get_by_text("in queue default").wait_for()
    page.get_by_label("Resources").fill("/core=none")
    answer.get_by_role("alert").wait_for()
    page.get_by_label("Resources").fill("/core=2")
    page.get_by_label("Walltime").fill("0:10:0")
    answer.get_by_text("core=2,walltime=0:10:0").wait_for()
    assert page.locator(".numbers span").all_inner_texts() == ["1", "2", "3", "4", "5"]
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("is submitted.").wait_for()
    (job,) = (int(found) for found in re.findall(r"/jobs/(\d+)$", page.url))
    site.cluster.wait_for([job], ["Terminated"], DEADLINE)
    page.reload()
    page.locator("pre", has_text="typed-in-a-browser").wait_for()


def test_the_gantt_draws_zooms_and_opens_a_part(site: Site, page: Page) -> None:
    jobs = site.cluster.job_ids("-l", "/nodes=1", "true")
    site.cluster.wait_for(jobs, ["Terminated"], DEADLINE)
    page.goto(f"{site.address}/gantt?span=6+h")
    drawing = page.locator("[data-gantt][data-drawn]")
    drawing.wait_for()
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_url(re.compile(r"begin=\d+&end=\d+"))
    begin, end = (int(value) for value in re.findall(r"(?:begin|end)=(\d+)", page.url))
    assert 3 * 3600 - 10 <= end - begin <= 3 * 3600 + 10
    # a name at the left opens that part of the hierarchy
    page.locator("[data-gantt] canvas").click(position={"x": 12, "y": 80})
    page.locator("[data-path] button").nth(1).wait_for()
    page.locator("[data-gantt] canvas").focus()
    page.keyboard.press("ArrowDown")
    assert "job" in page.locator("[data-gantt] [aria-live]").inner_text()


_NOTE_OUTLINES = """
    window.outlines = [];
    const strokeRect = CanvasRenderingContext2D.prototype.strokeRect;
    CanvasRenderingContext2D.prototype.strokeRect = function (...place) {
        if (!this.getLineDash().length) window.outlines.push(place);
        return strokeRect.call(this, ...place);
    };
"""


def test_the_gantt_outlines_where_a_reservation_may_move(site: Site, page: Page) -> None:
    (job,) = site.cluster.job_ids("-r", "now + 2h", "--slack", "2h", "-l", "/nodes=2,walltime=1:0:0", "true")
    page.add_init_script(_NOTE_OUTLINES)
    page.goto(f"{site.address}/gantt?job={job}")
    page.locator("[data-gantt][data-drawn]").wait_for()
    # three hours of the window and a margin of 0.3 of these at both sides, behind the names
    (outline,) = page.evaluate("[...new Map(window.outlines.map((one) => [String(one), one])).values()]")
    room = page.evaluate("document.querySelector('[data-gantt]').clientWidth - 124")
    assert abs(outline[2] - room / 1.6) < 5
    page.locator("[data-gantt] canvas").focus()
    page.keyboard.press("ArrowDown")
    told = page.locator("[data-gantt] [aria-live]").inner_text()
    assert (f"job {job} " in told, "may move between" in told) == (True, True)
    page.goto(f"{site.address}/jobs/{job}")
    page.get_by_text("it may move inside").wait_for()
    site.cluster.run("oardel", str(job))


_NOTE_TEXTS = """
    window.drawn = [];
    const fillText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        window.drawn.push(text);
        return fillText.call(this, text, ...rest);
    };
"""


def test_a_narrow_gantt_has_dates_of_the_reader_and_names_of_nodes(site: Site, chromium: Browser) -> None:
    narrow = chromium.new_context(viewport={"width": 400, "height": 800}, timezone_id="Asia/Tokyo", locale="en-GB")
    with narrow as context:
        page = context.new_page()
        page.set_default_timeout(_PATIENCE)
        page.add_init_script(_NOTE_TEXTS)
        log_in(page, site.address, site.token("read"))
        evening = int(datetime(2026, 1, 10, 18, tzinfo=UTC).timestamp())
        page.goto(f"{site.address}/gantt?begin={evening}&end={evening + 6 * 3600}")
        page.locator("[data-gantt][data-drawn]").wait_for()
        drawn = page.evaluate("window.drawn")
        assert {"06:00", "n1", "n2"} <= set(drawn)
        assert [text for text in drawn if "Jan" in text and "11" in text]
        # beside the cells of one node its name stays, where there is room for both
        page.set_viewport_size({"width": 900, "height": 800})
        page.locator("[data-gantt] canvas").click(position={"x": 12, "y": 80})
        page.locator("[data-path] button").nth(1).wait_for()
        page.evaluate("window.drawn = []; window.dispatchEvent(new Event('oarpy:theme'))")
        drawn = page.evaluate("window.drawn")
        assert [text for text in drawn if text in ("n1", "n2")] == ["n1"]
        assert {"1", "2"} <= set(drawn)


def test_days_of_the_last_week_begin_where_the_readers_do(site: Site, chromium: Browser) -> None:
    with chromium.new_context(timezone_id="Asia/Tokyo", locale="en-GB") as context:
        page = context.new_page()
        page.set_default_timeout(_PATIENCE)
        log_in(page, site.address, site.token("read"))
        page.goto(f"{site.address}/cluster")
        plot = page.locator("svg[data-hours]").first
        plot.locator("line.day").first.wait_for(state="attached")
        begin, end = (int(plot.get_attribute(f"data-{name}") or 0) for name in ("begin", "end"))
        places = [float(line.get_attribute("x1") or 0) for line in plot.locator("line.day").all()]
        moments = [begin + (x - 50) / (595 - 50) * (end - begin) + 9 * 3600 for x in places]
        assert len(moments) == 7
        assert [(moment + 300) % 86400 < 600 for moment in moments] == [True] * 7


def test_a_token_opens_the_pages_and_nothing_else_does(site: Site, chromium: Browser) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{site.address}/jobs?user=ann")
        assert page.url.endswith("/login?next=/jobs%3Fuser%3Dann")
        page.get_by_label("Token").fill("oarpy_" + "x" * 43)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("alert").wait_for()
        page.get_by_label("Token").fill(site.token("read"))
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(re.compile(r"/jobs\?user=ann$"))
        assert page.context.cookies()[0]["httpOnly"]
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(re.compile(r"/login$"))
        page.goto(f"{site.address}/cluster")
        assert "/login" in page.url


def test_an_admin_drains_a_node_and_that_is_on_record(site: Site, page: Page) -> None:
    page.goto(f"{site.address}/nodes/n2")
    page.get_by_role("button", name="Drain").click()
    page.get_by_label("Why").fill("a new fan")
    page.get_by_role("button", name="Drain").click()
    page.get_by_text("n2 is drained.").wait_for()
    assert "a new fan" in site.cluster.run("oarnodes", "n2").stdout
    page.goto(f"{site.address}/admin/audit")
    row = page.locator("tbody tr", has_text="Drain n2").first
    assert "reason: a new fan" in row.inner_text()
    assert "done 303" in row.inner_text()
    assert page.get_by_text("Log in", exact=True).count() == 0
    page.get_by_role("link", name="Logins").click()
    page.get_by_text("Log in", exact=True).first.wait_for()
    page.goto(f"{site.address}/admin")
    page.get_by_role("button", name="End the drain").click()
    page.get_by_role("button", name="End the drain").click()
    page.get_by_text("n2 is in use again.").wait_for()


def test_a_rule_is_tried_before_it_is_changed_and_restored(site: Site, page: Page) -> None:
    page.goto(f"{site.address}/admin/rules/default_queue")
    assert page.get_by_text("passed", exact=True).count() > 1
    text = page.get_by_label("Text of the rule")
    text.fill(text.input_value() + "\nif job.name == 'x':\n    job.project = 'y'\n")
    page.get_by_role("button", name="Try and compare").click()
    page.get_by_text("+if job.name == 'x':").wait_for()
    page.get_by_role("button", name="Keep the new text").click()
    page.get_by_text("has version 2").wait_for()
    page.get_by_role("button", name="Compare, restore").click()
    page.get_by_role("button", name="Restore it").click()
    page.get_by_text("as version 3").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(site: Site, chromium: Browser, scheme: str) -> None:
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    jobs = site.cluster.job_ids("-n", "seen", "-l", "/core=1", "true")
    site.cluster.wait_for(jobs, ["Terminated"], DEADLINE)
    bag = a_bag(site)
    found = {}
    with chromium.new_context(color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(_PATIENCE)
        page.goto(f"{site.address}/login")
        found["/login"] = troubles(page)
        log_in(page, site.address, site.token("admin"))
        for path in (*PAGES, *PAGES_OF_ADMINS, f"/jobs/{jobs[0]}", bag):
            page.goto(f"{site.address}{path}")
            found[path] = troubles(page)
    assert {path: some for path, some in found.items() if some} == {}
    site.cluster.run("oardel", "--bag", bag.removeprefix("/bags/"))


def a_bag(site: Site) -> str:
    """Submit a bag of tasks; return the path of its page."""
    jobs = site.cluster.job_ids("--bag", "3", "-l", "/core=1,walltime=0:10:0", "sleep 600")
    return f"/bags/{min(jobs)}"


def test_pages_fit_a_narrow_screen(site: Site, chromium: Browser) -> None:
    bag = a_bag(site)
    with chromium.new_context(viewport={"width": 400, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(_PATIENCE)
        log_in(page, site.address, site.token("admin"))
        for path in (*PAGES, *PAGES_OF_ADMINS, bag):
            page.goto(f"{site.address}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
    site.cluster.run("oardel", "--bag", bag.removeprefix("/bags/"))
