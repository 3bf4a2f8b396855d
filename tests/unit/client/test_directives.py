"""Lines of Slurm and PBS: the table of the guide, one row a test, and what is said of the rest."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from oarpy.commands.oarsub import app

from oarpy.client.boundary import parser
from oarpy.client.submission.directives.reading import read_directives
from oarpy.client.submission.directives.translation import Names
from oarpy.client.submission.options import Options
from oarpy.model.errors import UsageError

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "other-directives.md"
ROWS = re.findall(
    r"^\| `(#(?:SBATCH|PBS) [^`]*)` \| (?:`([^`]*)`|nothing.*?) \|$", GUIDE.read_text("utf-8"), re.MULTILINE
)


def read(
    *lines: str,
    consumables: tuple[str, ...] = ("memory",),
    properties: tuple[str, ...] = ("gpu",),
    job_name: str = "",
    strict: bool = True,
) -> tuple[Options, list[str]]:
    names = Names(lambda: consumables, lambda: properties, lambda: ("default", "fluent"))
    options, complaints, kept = read_directives(
        "job.sh", ("#!/bin/sh", *lines, "run"), "ann", names, job_name=job_name, strict=strict
    )
    assert set(kept) <= set(lines)
    return options, complaints


def typed(words: str) -> Options:
    """Return the options that ``oarsub`` reads from its command line."""
    given, _, _ = (
        parser(app)
        .make_parser(parser(app).make_context("oarsub", [], resilient_parsing=True))
        .parse_args(shlex.split(words))
    )
    return Options(
        texts={name: value for name, value in given.items() if isinstance(value, str)},
        lists={name: tuple(value) for name, value in given.items() if isinstance(value, list | tuple) and value},
        flags=frozenset(name for name, value in given.items() if value is True),
    )


def test_mails_without_an_address_go_to_the_user_and_one_file_takes_both_outputs() -> None:
    options, complaints = read("#PBS -m abe", "#PBS -j oe")
    assert complaints == []
    assert options.texts["notify"] == "[ERROR,RUNNING,END]mail:ann"
    assert options.texts["stdout"] == options.texts["stderr"] == "OAR.o%jobid%"


@pytest.mark.parametrize(
    ("lines", "job_name", "singleton"),
    [
        (("#SBATCH -d singleton", "#SBATCH -J ww"), "", "ww"),
        (("#SBATCH -d singleton,afterok:7", "#SBATCH -J 'my run'"), "", "my_run"),
        (("#SBATCH -d singleton", "#SBATCH -J ww"), "typed", "typed"),
        (("#SBATCH -d singleton",), "", "job.sh"),
    ],
    ids=["name", "spaces", "command line", "script"],
)
def test_a_singleton_has_the_name_of_its_job_or_script(lines: tuple[str, ...], job_name: str, singleton: str) -> None:
    options, complaints = read(*lines, job_name=job_name)
    assert complaints == []
    assert options.lists["types"] == (f"singleton={singleton}",)


def test_the_guide_has_both() -> None:
    assert len(ROWS) > 45


@pytest.mark.parametrize(("line", "ours"), ROWS, ids=[line for line, _ in ROWS])
def test_row_of_the_guide(line: str, ours: str) -> None:
    options, complaints = read(line)
    assert complaints == []
    assert options == typed(ours)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("#SBATCH --qos=high", "job.sh, line 2: #SBATCH --qos=high: it is left out"),
        ("#SBATCH -q", "job.sh, line 2: #SBATCH -q: it is left out"),
        ("#SBATCH --array=0-9%2", "OAR_ARRAY_INDEX is 1 to 10"),
        ("#SBATCH --dependency=before:7", "write -a ID, -a ok:ID, -a notok:ID or -t singleton=NAME"),
        ("#SBATCH --nice=-5", "it is left out: write --nice N, 0 to 1000"),
        ("#SBATCH --nice=5000", "it is read as --nice 1000"),
        ("#SBATCH --output=%N.out", "no word for '%N'"),
        ("#SBATCH 'open", "No closing quotation"),
        ("#SBATCH nodes=2", "'nodes=2' is no option"),
        ("#PBS -v A=1", "#PBS -v A=1: it is left out"),
    ],
)
def test_what_is_left_out_is_named_in_one_line(line: str, told: str) -> None:
    _, complaints = read(line)
    assert len(complaints) == 1
    assert told in complaints[0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("#SBATCH --gres=fpga:2", "write -l with the site's properties"),
        ("#SBATCH --gres gpu:a100:2", "write -l with the site's properties"),
        ("#SBATCH --gpus=some", "'some' is no number above 0"),
        ("#SBATCH --constraint=intel", "write -p with the site's properties"),
        ("#SBATCH --nodes x", "'x' is no number above 0"),
        ("#SBATCH --exclude=n[1-", "'n[1-' is no list of nodes"),
        ("#SBATCH --nodelist=./hosts", "'./hosts' is no list of nodes"),
        ("#SBATCH --licenses=matlab:2", "there is no resource of type matlab here"),
        ("#SBATCH --licenses=a@b:2", "write -t token:NAME=COUNT"),
        ("#SBATCH --time=UNLIMITED", "walltime=H:M:S"),
        ("#SBATCH --array=1,3,5", "write --array N: indexes are 1 to N"),
        ("#SBATCH --mem-per-cpu=2G", "write --mem"),
        ("#SBATCH --cpus-per-gpu=2", "write -l /nodes=1/gpu=1/core=2"),
        ("#SBATCH --tmp=10G", "it has no counterpart here"),
        ("#PBS -l select=2:ncpus=4:host=n1", "without counterpart: host=n1"),
        ("#PBS -l place=pack", "write -l with the levels of the site"),
        ("#PBS -l walltime=soon", "walltime=H:M:S"),
        ("#PBS -l software=fluent", "it has no counterpart here"),
    ],
)
def test_what_says_how_much_or_where_refuses_the_script(line: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"job.sh, line 3: {line[: line.index(' ')]} ")) as refused:
        read("#", line)
    assert told in refused.value.message
    assert "--ignore-directives" in str(refused.value)
    _, complaints = read(line, strict=False)
    assert len(complaints) == 1
    assert told.removeprefix("it has no counterpart here") in complaints[0]


def test_graphics_processors_need_the_property() -> None:
    with pytest.raises(UsageError, match="no resource here has a gpu"):
        read("#SBATCH --gpus-per-node=2", properties=())


def test_memory_needs_the_consumable() -> None:
    options, complaints = read("#SBATCH --mem=4000", "#SBATCH -N 2", consumables=())
    assert complaints == ["job.sh, line 2: #SBATCH --mem=4000: it is left out: this site has no consumable 'memory'"]
    assert options.lists["alternatives"] == ("/nodes=2/core=1",)
    assert read("#SBATCH --mem=4000", "#SBATCH -N 2")[0].lists["alternatives"] == ("/nodes=2/core=1,memory=4000M",)


def test_lines_end_with_the_first_command_and_are_of_one_kind() -> None:
    options, complaints = read("", "# text", "#SBATCH -J one", "#PBS -N two", "date", "#SBATCH -J three")
    assert options.texts == {"name": "one"}
    assert complaints == ["job.sh, line 5: #PBS beside #SBATCH, whose lines count"]
