"""The cost of pages in a busy week: ``oarpy bench web [--jobs N] [--nodes N]``.

A database gets 10,000 jobs on 10,240 cores over a week, and ``oarpy web`` serves it. Each answer is timed, as the
shortest of some, as other programs of the machine only add to it. Chromium says when it painted first, and when the
drawing was there. 200 listeners hear of one change: the time is from the change to the last of them. The ratio is
that of what is allowed: 0.5 s for an answer, 2 s for a paint, 2 s for the last listener.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, command

from .busy_week import fill
from .results import save

if TYPE_CHECKING:
    from playwright.sync_api import Page

ANSWER, PAINT, HEARD = 0.5, 2.0, 2.0
"""Seconds that are allowed."""

CORES = 32
"""Cores of a node."""

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_ACCOUNTS = ("root", "daemon", "bin", "sys")
"""The users whose tokens the listeners have: each user has 64 streams at most."""

_PAINTED = "performance.getEntriesByName('first-contentful-paint')"
_TIMES = 5
_DEADLINE = 60.0


def paths(now: float) -> dict[str, str]:
    """Return what is asked for."""
    week = f"begin={int(now - 6 * 86400)}&end={int(now + 86400)}"
    day = f"begin={int(now - 57600)}&end={int(now + 28800)}"
    return {
        "cluster": "/cluster",
        "cells of the cluster": "/data/cells",
        "jobs": "/jobs",
        "jobs by filter": "/jobs?user=ann&state=Terminated&name=mesh",
        "jobs, page in the middle": "/jobs?before=5000",
        "jobs of a node": "/jobs?node=n5",
        "jobs by walltime": "/jobs?sort=-walltime",
        "the last week": "/cluster/week",
        "a job": "/jobs/5000",
        "why a job waits": "/jobs/{waiting}/why",
        "gantt": "/gantt?span=week",
        "bars of a day": f"/data/gantt?{day}",
        "bars of the week": f"/data/gantt?{week}",
        "queues": "/queues",
        "accounting": "/accounting",
        "a node": "/nodes/n5",
        "administration": "/admin",
    }


@contextmanager
def served(sandbox: Sandbox, port: int) -> Iterator[None]:
    """Run ``oarpy web``."""
    words = [command("oarpy"), "web", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(words, env=sandbox.environment(), stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + _DEADLINE
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if time.monotonic() > until or process.poll() is not None:
                    raise TimeoutError("oarpy web does not listen")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


def token(sandbox: Sandbox, user: str) -> str:
    """Make a token of an account."""
    output = sandbox.run("oartoken", "new", "--user", user, "--scope", "admin" if user == "root" else "read").stdout
    match = re.search(r"oarpy_\S+", output)
    assert match is not None
    return match[0]


def answers(port: int, secret: str, paths_by_name: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return the seconds of the first answer to each, of the shortest, of the middle one, and its bytes."""
    results = {}
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/html", "Accept-Encoding": "gzip"}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for name, path in paths_by_name.items():
        spent, size = [], 0
        for _ in range(_TIMES):
            began = time.perf_counter()
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            size = len(answer.read())
            spent.append(time.perf_counter() - began)
            if answer.status != 200:
                raise RuntimeError(f"{path}: HTTP {answer.status}")
        results[name] = {
            "first": spent[0],
            "shortest": min(spent),
            "median": statistics.median(spent),
            "bytes": float(size),
        }
    return results


def log_in(page: Page, address: str, secret: str) -> None:
    """Log a browser in with a token."""
    page.goto(f"{address}/login")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(re.compile(r".*/$"))


def paints(port: int, secret: str) -> dict[str, dict[str, float]]:
    """Return when Chromium painted each page first, and when its drawing was there, in seconds from the request."""
    from playwright.sync_api import sync_playwright

    results = {}
    drawings = {"cluster": "[data-cells]", "gantt?span=week": "[data-gantt]", "jobs": "", "queues": ""}
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(_DEADLINE * 1000)
        log_in(page, f"http://127.0.0.1:{port}", secret)
        for path, drawing in drawings.items():
            best: dict[str, float] = {}
            for _ in range(3):
                page.goto(f"http://127.0.0.1:{port}/{path}")
                # the pages let no text be evaluated as script, which waiting in the page would do
                while not page.evaluate(f"{_PAINTED}.length"):
                    page.wait_for_timeout(20)
                at = {"paint": page.evaluate(f"{_PAINTED}[0].startTime") / 1000}
                if drawing:
                    page.locator(f"{drawing}[data-drawn]").wait_for()
                    at["drawn"] = float(page.locator(drawing).get_attribute("data-drawn") or 0) / 1000
                best = {name: min(value, best.get(name, value)) for name, value in at.items()}
            results[path] = best
        browser.close()
    return results


def heard(port: int, secrets: Sequence[str], listeners: int, dsn: str) -> dict[str, float]:
    """Open streams, change a job, and return the seconds until the first and the last listener heard of it."""
    with ExitStack() as open_streams, selectors.DefaultSelector() as selector:
        for number in range(listeners):
            stream = open_streams.enter_context(socket.create_connection(("127.0.0.1", port)))
            head = ("GET /api/v1/events HTTP/1.1", "Host: x", f"Authorization: Bearer {secrets[number % len(secrets)]}")
            stream.sendall("\r\n".join((*head, "", "")).encode())
            selector.register(stream, selectors.EVENT_READ)
        _until_all(selector, listeners, b"event: begin")
        with psycopg.connect(dsn, autocommit=True) as connection:
            began = time.perf_counter()
            connection.execute(
                "UPDATE jobs SET state = 'Hold' WHERE job_id = (SELECT max(job_id) FROM jobs WHERE state = 'Waiting')"
            )
            times = _until_all(selector, listeners, b"Hold")
    return {"first": times[0] - began, "last": times[-1] - began}


def _until_all(selector: selectors.BaseSelector, listeners: int, word: bytes) -> list[float]:
    """Return when each listener got the word, in order."""
    got: dict[Any, bytes] = {}
    times: dict[Any, float] = {}
    until = time.monotonic() + _DEADLINE
    while len(times) < listeners:
        if time.monotonic() > until:
            raise TimeoutError(f"{listeners - len(times)} listeners heard nothing")
        for key, _ in selector.select(1.0):
            data = key.fileobj.recv(65536)  # type: ignore[union-attr]
            if not data:
                raise ConnectionError("a stream ended")
            got[key.fd] = got.get(key.fd, b"")[-200:] + data
            if word in got[key.fd]:
                times.setdefault(key.fd, time.perf_counter())
    return sorted(times.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="oarpy bench web", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=320, help=f"nodes of {CORES} cores")
    parser.add_argument("--listeners", type=int, default=200)
    options = parser.parse_args(arguments)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder:
        sandbox = Sandbox(Path(folder), {"web": {"requests_per_minute": 0}, "log": {"level": "warning"}})
        try:
            sandbox.create()
            report = _measured(sandbox, port, options)
        finally:
            sandbox.discard()
    _print(report)
    save("web", report)
    return 0


def _measured(sandbox: Sandbox, port: int, options: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    fill(sandbox.dsn(), options.jobs, options.nodes, CORES)
    report: dict[str, Any] = {"jobs": options.jobs, "cores": options.nodes * CORES, "fill": time.perf_counter() - began}
    secrets = [token(sandbox, user) for user in _ACCOUNTS]
    with served(sandbox, port):
        with psycopg.connect(sandbox.dsn()) as connection:
            row = connection.execute("SELECT max(job_id) FROM jobs WHERE state = 'Waiting'").fetchone()
        assert row is not None
        paths_by_name = {name: path.replace("{waiting}", str(row[0])) for name, path in paths(time.time()).items()}
        report["answers"] = answers(port, secrets[0], paths_by_name)
        report["paints"] = paints(port, secrets[0]) if os.path.exists(CHROMIUM) else {}
        report["listeners"] = {"number": options.listeners, **heard(port, secrets, options.listeners, sandbox.dsn())}
    return report


def _print(report: Mapping[str, Any]) -> None:
    lines = [f"{report['jobs']} jobs on {report['cores']} cores over a week (filled in {report['fill']:.0f} s)\n"]
    lines.append(f"{'answers, in seconds':<28}{'first':>8}{'median':>8}{'shortest':>10}{'ratio':>7}{'KiB':>8}")
    for name, answer in report["answers"].items():
        figures = f"{answer['first']:>8.3f}{answer['median']:>8.3f}{answer['shortest']:>10.3f}"
        lines.append(f"{name:<28}{figures}{answer['shortest'] / ANSWER:>7.2f}{answer['bytes'] / 1024:>8.1f}")
    lines.append(f"\n{'pages in Chromium':<28}{'paint':>8}{'ratio':>7}{'drawn':>8}")
    for name, page in report["paints"].items():
        drawn = f"{page['drawn']:>8.3f}" if "drawn" in page else ""
        lines.append(f"{name:<28}{page['paint']:>8.3f}{page['paint'] / PAINT:>7.2f}{drawn}")
    if not report["paints"]:
        lines.append(f"no {CHROMIUM}: not measured")
    listeners = report["listeners"]
    lines.append(f"\n{listeners['number']} listeners heard of a change after {listeners['first']:.3f} s (the first)")
    lines.append(f"to {listeners['last']:.3f} s (the last), ratio {listeners['last'] / HEARD:.2f}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
