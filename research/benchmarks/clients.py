"""The cost of a command as a whole process, with and without the gateway: ``oarpy bench clients``.

The commands are those of an installed wheel, which is laid out by links. ``python -S -c pass`` beside it is the start
of this interpreter without what it loads to find packages, which no command can undercut. The processor time is that
of the command's own process, user and system.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import oarpy
from oarpy.admission.rules.default_rules import default_rules
from oarpy.admission.rules.execution import RuleLimits, run_rules
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.site import FixedSite
from oarpy.frontend.conversation import connect
from oarpy.local_cluster.sandbox import Sandbox, running_sandbox
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission

from .results import save

_START_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of runs: by the clock, ascending, and the mean of their own processor time."""

    wall: list[float]
    processor: float | None = None


def spent(words: Sequence[str], environment: Mapping[str, str], times: int) -> Spent:
    """Return what ``times`` runs took."""
    wall, before = [], of_commands()
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        wall.append((time.perf_counter() - began) * 1000)
    return Spent(sorted(wall), (of_commands() - before) / times)


def of_commands() -> float:
    """Return the processor milliseconds of all commands that were started and have ended so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


def install(folder: Path) -> Path:
    """Lay ``folder`` out as an installation of the wheel, by links; return where its commands are."""
    bin_directory, version = folder / "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "oarpy").symlink_to(Path(oarpy.__file__).parent)
    shutil.copytree(Path(__file__).resolve().parent.parent / "packaging" / "scripts", bin_directory)
    (bin_directory / "oarpy").write_text(f"#!{sys.executable}\n", encoding="utf-8")
    return bin_directory


def wait_for_gateway(sandbox: Sandbox) -> None:
    """Return when the gateway of the sandbox takes connections."""
    until = time.monotonic() + _START_TIMEOUT
    path = str(sandbox.directory / "gateway" / "socket")
    while (connection := connect(path)) is None:
        if time.monotonic() > until:
            raise SystemExit("the gateway does not listen")
        time.sleep(0.05)
    connection.close()


def measure(sandbox: Sandbox, times: int, queued: int) -> dict[str, Spent]:
    """Return the milliseconds of every command."""
    sandbox.run("oaradmin", "resources", "add", "/host=n[1-17]/core={2}", "--transport", "local")
    job = str(sandbox.job_ids("--hold", "date")[0])
    through = sandbox.environment()
    direct = {**through, "OARPY_GATEWAY_SOCKET": ""}
    installed = install(sandbox.directory / "installed")
    commands = {
        "oarsub date": [str(installed / "oarsub"), "--hold", "date"],
        "oarstat -j N": [str(installed / "oarstat"), "-j", job],
        "oarstat -f -j N": [str(installed / "oarstat"), "-f", "-j", job],
        "oardel -h": [str(installed / "oardel"), "--help"],
    }
    results = {
        "python -S -c pass": spent([sys.executable, "-S", "-c", "pass"], through, times),
        "python -c pass": spent([sys.executable, "-c", "pass"], through, times),
    }
    for name, words in commands.items():
        spent(words, through, 3)
        results[name] = spent(words, through, times)
        results[f"{name}, no gateway"] = spent(words, direct, times)
    sandbox.run("oarsub", "--hold", "--array", str(queued), "date")
    listing = [str(installed / "oarstat")]
    results[f"oarstat, {queued} jobs"] = spent(listing, through, times)
    results[f"oarstat, {queued} jobs, no gateway"] = spent(listing, direct, times)
    return results


def measure_rules(times: int) -> dict[str, Spent]:
    """Return the milliseconds of the default rules over one submission, in their own process and in this one."""
    rules, site = RuleSet(default_rules()), FixedSite()
    submission = Submission("ann", alternatives=(parse_request("/nodes=1/core=2"),), environment=dict(os.environ))
    runs: dict[str, Callable[[], object]] = {
        "default rules, in their process": lambda: rules.run(submission, site),
        "default rules, in this process": lambda: run_rules(
            rules.rules, submission, site, RuleLimits(), lambda _: None
        ),
    }
    results = {}
    for name, run in runs.items():
        run()
        results[name] = Spent(sorted(_milliseconds(run) for _ in range(times * 20)))
    return results


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
        results = measure(sandbox, options.times, options.jobs)
    results |= measure_rules(options.times)
    lines = [f"{'milliseconds of a whole process':<36}{'median':>9}{'mean':>9}{'least':>9}{'processor':>11}"]
    for name, taken in results.items():
        own = "" if taken.processor is None else f"{taken.processor:>11.1f}"
        times = f"{statistics.median(taken.wall):>9.1f}{statistics.mean(taken.wall):>9.1f}{taken.wall[0]:>9.1f}"
        lines.append(f"{name:<36}{times}{own}")
    sys.stdout.write("\n".join(lines) + f"\nload average {os.getloadavg()[0]:.1f}\n")
    medians = {name: round(statistics.median(result.wall), 1) for name, result in results.items()}
    processor = {name: round(result.processor, 1) for name, result in results.items() if result.processor is not None}
    save("clients", {"times": options.times, "median_milliseconds": medians, "processor_milliseconds": processor})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
