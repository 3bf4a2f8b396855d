"""Going through a schedule: ``oarpy bench stepping [--quick]``.

10,000 jobs of the system ``windows`` on two clusters, from a fixed seed. On the server: what an event costs on the way,
what going back by one event costs after some thousand events, where copies are kept on the way, and what its process
takes. In Chromium, where there is one: the first paint with all bars, STEP, STEP BACK, and RUN UNTIL over 10,000
events. Seconds are wall-clock time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from oarpy.grid.simulation.command import run_of
from oarpy.local_cluster.sandbox import command
from oarpy.simulation.stepping.stepper import Stepper
from research.benchmarks.results import save
from research.benchmarks.web import CHROMIUM, FLAGS

JOBS = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line for each figure, and save the result."""
    parser = argparse.ArgumentParser(prog="oarpy bench stepping", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 jobs, and not to be compared")
    quick = parser.parse_args(arguments).quick
    text = scenario(JOBS // 10 if quick else JOBS)
    figures = on_the_server(text)
    if os.path.exists(CHROMIUM):
        figures |= in_the_browser(text)
    for name, value in figures.items():
        sys.stdout.write(f"{name:<44} {value:>10,}\n")
    if not quick:
        save("stepping", {"jobs": JOBS, **figures})
    return 0


def scenario(jobs: int) -> str:
    """Return a scenario of so many jobs on two clusters that are three quarters busy."""
    dice, now, entries = random.Random(1), 0.0, []
    for number in range(jobs):
        now += dice.expovariate(1 / 30)
        run = dice.choice([60, 300, 900, 1800])
        entries.append(
            {
                "id": number,
                "submit": round(now),
                "run": run,
                "walltime": run * 2,
                "procs": dice.choice([1, 2, 4, 8, 16]),
                "cluster": dice.choice("AB"),
                "deadline": round(now) + run * 2 + dice.choice([600, 7200, 86400]),
            }
        )
    clusters = [{"name": "A", "procs": 128}, {"name": "B", "procs": 128}]
    return json.dumps({"system": "windows", "clusters": clusters, "jobs": entries})


def on_the_server(text: str) -> dict[str, float]:
    """Return what going through costs without a browser, in ms and MB."""
    plain = seconds(lambda: sum(1 for _ in run_of(text).events()))
    stepper = Stepper(partial(run_of, text))
    whole = seconds(lambda: stepper.run_until(float("inf")))
    events, (copies, size) = stepper.step, stepper.copies
    dice, first, next_ones = random.Random(2), [], []
    for _ in range(15):
        stepper.go_to(dice.randint(1, events))
        first.append(seconds(lambda: stepper.go_to(stepper.step - 1)))
        next_ones += [seconds(lambda: stepper.go_to(stepper.step - 1)) for _ in range(4)]
    state = seconds(stepper.state) + seconds(stepper.view)
    return {
        "events": events,
        "the run alone, ms": milli(plain),
        "the run with copies and bars, ms": milli(whole),
        "copies": copies,
        "copies, MB": round(size / 1e6, 1),
        "going back by one, median ms": milli(statistics.median(first + next_ones)),
        "going back by one, worst ms": milli(max(first + next_ones)),
        "the state as an object, ms": milli(state),
    }


def in_the_browser(text: str) -> dict[str, float]:
    """Return what a reader waits for, in ms, and the most memory of the server in MB."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="oarpy-stepping-") as folder:
        file = Path(folder) / "scenario.json"
        file.write_text(text)
        words = [command("oarpy"), "grid", "simulate", str(file), "--web"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as running:
            try:
                assert server.stdout is not None
                link = server.stdout.readline().strip()
                browser = running.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
                waits = _watched(browser.new_page(viewport={"width": 1200, "height": 900}), link)
                browser.close()
                return waits | {"the server, most MB": _most_memory(server.pid)}
            finally:
                server.terminate()


def _watched(page: Any, link: str) -> dict[str, float]:
    page.set_default_timeout(600_000)

    def done() -> None:
        page.wait_for_function("window.stepping")
        page.evaluate("stepping.idle()")

    def pressed(key: str) -> float:
        def press() -> None:
            page.keyboard.press(key)
            done()

        return seconds(press)

    page.goto(link)
    done()
    all_of_it = pressed("a")
    events = page.evaluate("stepping.object().steps")
    last = page.evaluate("stepping.object().now")
    page.goto("about:blank")

    def paint() -> None:
        page.goto(f"{link}#step={events}")
        done()

    painted = seconds(paint)
    page.goto("about:blank")
    page.goto(f"{link}#step={events // 2}")
    done()
    steps = [pressed("s") for _ in range(10)]
    backs = [pressed("b") for _ in range(10)]
    page.goto("about:blank")
    page.goto(link)
    done()
    page.fill("[data-until]", str(last / 2))

    def until() -> None:
        page.click("[data-do=until]")
        done()

    ran = seconds(until)
    return {
        "page: first paint with all bars, ms": milli(painted),
        "page: STEP, median ms": milli(statistics.median(steps)),
        "page: STEP BACK, median ms": milli(statistics.median(backs)),
        "page: RUN ALL, ms": milli(all_of_it),
        "page: events of RUN UNTIL": page.evaluate("stepping.object().steps"),
        "page: RUN UNTIL, ms": milli(ran),
    }


def _most_memory(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return round(int(line.split()[1]) * 1024 / 1e6, 1)


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def milli(value: float) -> float:
    """Return seconds as milliseconds."""
    return round(value * 1000, 1)
