"""What a command costs as a whole process, with and without the gateway: ``python -m benchmarks.clients``.

``python -c pass`` beside it is the start of this interpreter, which no command can undercut. An editable installation
adds a part to that: the difference to ``python -S -c pass``, site included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from oarpy.admission.rules.default_rules import default_rules
from oarpy.admission.rules.execution import RuleLimits, run_rules
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.site import FixedSite
from oarpy.frontend.conversation import connect
from oarpy.local_cluster.sandbox import Sandbox, command, running_sandbox
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission

from .results import save

_START_TIMEOUT = 30.0


def spent(words: Sequence[str], environment: Mapping[str, str], times: int) -> list[float]:
    """Return the wall-clock milliseconds of ``times`` runs, ascending."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


def wait_for_gateway(sandbox: Sandbox) -> None:
    """Return when the gateway of the sandbox takes connections."""
    until = time.monotonic() + _START_TIMEOUT
    path = str(sandbox.directory / "gateway" / "socket")
    while (connection := connect(path)) is None:
        if time.monotonic() > until:
            raise SystemExit("the gateway does not listen")
        time.sleep(0.05)
    connection.close()


def measure(sandbox: Sandbox, times: int, queued: int) -> dict[str, list[float]]:
    """Return the milliseconds of every command."""
    sandbox.run("oaradmin", "resources", "add", "/host=n[1-17]/core={2}", "--transport", "local")
    job = str(sandbox.job_ids("--hold", "date")[0])
    through = sandbox.environment()
    direct = {**through, "OARPY_GATEWAY_SOCKET": ""}
    commands = {
        "oarsub date": [command("oarsub"), "--hold", "date"],
        "oarstat -j N": [command("oarstat"), "-j", job],
        "oarstat -f -j N": [command("oarstat"), "-f", "-j", job],
        "oardel -h": [command("oardel"), "--help"],
    }
    found = {
        "python -S -c pass": spent([sys.executable, "-S", "-c", "pass"], through, times),
        "python -c pass": spent([sys.executable, "-c", "pass"], through, times),
    }
    for name, words in commands.items():
        spent(words, through, 3)
        found[name] = spent(words, through, times)
        found[f"{name}, no gateway"] = spent(words, direct, times)
    sandbox.run("oarsub", "--hold", "--array", str(queued), "date")
    listing = [command("oarstat")]
    found[f"oarstat, {queued} jobs"] = spent(listing, through, times)
    found[f"oarstat, {queued} jobs, no gateway"] = spent(listing, direct, times)
    return found


def measure_rules(times: int) -> dict[str, list[float]]:
    """Return the milliseconds of the default rules over one submission, in their own process and in this one."""
    rules, site = RuleSet(default_rules()), FixedSite()
    asked = Submission("ann", alternatives=(parse_request("/nodes=1/core=2"),), environment=dict(os.environ))
    runs: dict[str, Callable[[], object]] = {
        "default rules, in their process": lambda: rules.run(asked, site),
        "default rules, in this process": lambda: run_rules(rules.rules, asked, site, RuleLimits(), lambda _: None),
    }
    found = {}
    for name, run in runs.items():
        run()
        found[name] = sorted(_milliseconds(run) for _ in range(times * 20))
    return found


def _milliseconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1000, help="queued jobs for oarstat")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder,
        running_sandbox(Path(folder), {"log": {"level": "warning"}}) as sandbox,
    ):
        wait_for_gateway(sandbox)
        found = measure(sandbox, options.times, options.jobs)
    found |= measure_rules(options.times)
    lines = [f"{'milliseconds of a whole process':<36}{'median':>9}{'mean':>9}{'least':>9}"]
    for name, times in found.items():
        lines.append(f"{name:<36}{statistics.median(times):>9.1f}{statistics.mean(times):>9.1f}{times[0]:>9.1f}")
    sys.stdout.write("\n".join(lines) + f"\nload average {os.getloadavg()[0]:.1f}\n")
    medians = {name: round(statistics.median(times), 1) for name, times in found.items()}
    save("clients", {"times": options.times, "median_milliseconds": medians})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
