"""What is told of an experiment's runs while they are done."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from research.runs.experiment import Parameters, RunList, Values
from research.runs.pools import local_pool
from research.runs.runner import do_runs


class Terminal(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self) -> bool:
        return True


def double(run: Parameters, places: Mapping[str, str]) -> Values:
    return {"double": 2 * int(run["number"])}


def told(folder: Path, numbers: int, err: io.StringIO) -> str:
    """Return what was told of so many runs."""
    experiment = RunList("doubles", 1, double, [{"number": number} for number in range(numbers)])
    done = do_runs(experiment, folder, local_pool(1), err)
    assert [done.values[place]["double"] for place in range(numbers)] == [2 * place for place in range(numbers)]
    return err.getvalue()


def test_runs_done_kept_and_in_all_are_told(tmp_path: Path) -> None:
    assert told(tmp_path, 2, io.StringIO()) == "runs: 2 done, 0 kept from before, 2 in all\n"
    assert told(tmp_path, 3, io.StringIO()) == "runs: 1 done, 2 kept from before, 3 in all\n"
    assert told(tmp_path, 3, io.StringIO()) == "runs: 0 done, 3 kept from before, 3 in all\n"


def test_a_terminal_shows_the_time_that_is_left_on_one_line(tmp_path: Path) -> None:
    *during, last = told(tmp_path, 3, Terminal()).split("\r\x1b[K")[1:]
    assert during[0].startswith("runs: 1 done, 0 kept from before, 3 in all, about 0:0:"), during
    assert [line.endswith(" left") for line in during] == [True, True]
    assert last == "runs: 3 done, 0 kept from before, 3 in all\n"
    assert told(tmp_path, 3, Terminal()) == "\r\x1b[Kruns: 0 done, 3 kept from before, 3 in all\n"


def test_what_a_killed_process_had_begun_to_write_is_removed(tmp_path: Path) -> None:
    told(tmp_path, 2, io.StringIO())
    written = sorted(tmp_path.rglob("*.json"))
    for file in written:
        file.with_name(f"{file.name}.12345.new").touch()
    assert told(tmp_path, 2, io.StringIO()) == "runs: 0 done, 2 kept from before, 2 in all\n"
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == written
