"""What oargridsub's users type becomes a grid job, or one line that says what is wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.configuration import SubmissionSettings
from oarpy.grid.submission.grid_draft import GridDraft, draft
from oarpy.grid.submission.grid_options import GridOptions
from oarpy.grid.submission.named_parts import NamedPart, read_parts
from oarpy.model.errors import UsageError

NOW = datetime.fromisoformat("2026-05-04T11:00:00+00:00")
ANYWHERE = GridOptions(words=("date",), resources=("/core=8",))
TOGETHER = replace(ANYWHERE, components="3", deadline="+30m")
NAMED = GridOptions(words=('a:rdef="/nodes=2",b:rdef="/core=4":prop="mem > 4"',), walltime="1:0:0", program="./run")


def asked(options: GridOptions) -> GridDraft:
    return draft(options, "ann", SubmissionSettings(), NOW)


def test_parts_on_named_clusters() -> None:
    job = asked(replace(NAMED, start="2026-05-04 12:00:00+00:00", types=("deploy",), queue="long", directory="/d")).job
    assert (job.kind, job.user, job.program, job.walltime) == ("named", "ann", "./run", 3600)
    assert (job.deadline, job.queue, job.directory) == (NOW.timestamp() + 3600, "long", "/d")
    assert [(one.cluster, one.resources, one.procs, one.properties, one.types) for one in job.components] == [
        ("a", "/nodes=2", 2, "", ("deploy",)),
        ("b", "/core=4", 4, "mem > 4", ("deploy",)),
    ]


def test_parts_without_a_date_begin_at_once_and_without_a_program_they_last() -> None:
    job = asked(replace(NAMED, program=None, walltime=None)).job
    assert (job.deadline, job.program, job.walltime) == (NOW.timestamp() + 10, "exec sleep infinity", 7200)


@pytest.mark.parametrize("text", ["2026-05-04 10:59:30+00:00", "now", "2026-05-04 11:00:09+00:00"])
def test_clusters_get_time_to_reserve_what_begins_at_once(text: str) -> None:
    assert asked(replace(NAMED, start=text)).job.deadline == NOW.timestamp() + 10


def test_any_one_cluster() -> None:
    made = asked(replace(ANYWHERE, words=("echo", "a b"), resources=("/nodes=2/core=4,walltime=0:10:0",), array="7"))
    (component,) = made.job.components
    assert (made.job.kind, made.job.program, made.job.walltime, made.copies) == ("mapped", "echo 'a b'", 600, 7)
    assert (component.cluster, component.resources, component.procs) == (None, "/nodes=2/core=4", 8)
    assert (made.job.deadline, made.job.lp, made.job.tries, made.job.wait) == (None, None, None, None)


def test_components_that_start_together() -> None:
    job = asked(replace(TOGETHER, lp="1", tries="0", wait="10", walltime="2", properties="mem > 1")).job
    assert (job.kind, len(job.components), job.deadline) == ("coallocated", 3, NOW.timestamp() + 1800)
    assert (job.lp, job.tries, job.wait, job.walltime) == (1.0, 0, 10.0, 7200)
    assert {one.properties for one in job.components} == {"mem > 1"}


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("10", 10), ("2.5", 2.5), ("10m", 600), ("inf", 316224000)])
def test_how_long_before_its_deadline_a_job_is_looked_after(text: str, seconds: float) -> None:
    assert asked(replace(TOGETHER, wait=text)).job.wait == seconds


@pytest.mark.parametrize(
    "text",
    [
        """a:rdef="/nodes=2":prop="x = 'y'":type="deploy":name="one",b:rdef="/core=4\"""",
        "a:rdef=/nodes=2:prop=x = 'y':type=deploy:name=one,b:rdef=/core=4",
        " a:name=one:type=deploy:prop=x = 'y':rdef='/nodes=2' ,  b:rdef=/core=4,",
    ],
)
def test_quotes_and_order_do_not_matter(text: str) -> None:
    assert read_parts(text) == (
        NamedPart("a", "/nodes=2", "x = 'y'", "deploy", "one"),
        NamedPart("b", "/core=4"),
    )


def test_a_filter_may_hold_commas_and_quotes() -> None:
    (part,) = read_parts("a:rdef=/core=1:prop='x' IN ('u', 'v') AND y = 1")
    assert part.prop == "'x' IN ('u', 'v') AND y = 1"


WRONG = {
    "nothing": GridOptions(),
    "no cluster": replace(NAMED, words=("/nodes=2",)),
    "no resources": replace(NAMED, words=("a",)),
    "empty resources": replace(NAMED, words=('a:rdef=""',)),
    "unknown word": replace(NAMED, words=("a:size=2",)),
    "twice": replace(NAMED, words=("a:rdef=/core=1:rdef=/core=2",)),
    "open quotes": replace(NAMED, words=('a:rdef="/core=1',)),
    "words behind": replace(NAMED, words=('a:rdef="/core=1" b',)),
    "cluster with a dot": replace(NAMED, words=("a.b:rdef=/core=1",)),
    "no request": replace(NAMED, words=("a:rdef=two",)),
    "0 nodes": replace(NAMED, words=("a:rdef=/nodes=0",)),
    "all nodes": replace(NAMED, words=("a:rdef=/nodes=ALL",)),
    "walltime in a part": replace(NAMED, words=("a:rdef='/core=1,walltime=1'",)),
    "past start": replace(NAMED, start="2026-05-04 10:58:00+00:00"),
    "far start": replace(NAMED, start="2046-05-04 10:58:00"),
    "no date": replace(NAMED, start="soon"),
    "no walltime": replace(NAMED, walltime="0"),
    "walltime that is none": replace(NAMED, walltime="long"),
    "empty program": replace(NAMED, program=" "),
    "relative directory": replace(NAMED, directory="here"),
    "queue that is none": replace(NAMED, queue="a b"),
    "notice that is none": replace(NAMED, notify="ann"),
    "empty type": replace(NAMED, types=("",)),
    "array of named parts": replace(NAMED, array="2"),
    "filter of named parts": replace(NAMED, properties="mem > 1"),
    "no components": replace(TOGETHER, components="0"),
    "components that are none": replace(TOGETHER, components="two"),
    "components without a deadline": replace(TOGETHER, deadline=None),
    "deadline without components": replace(TOGETHER, components=None),
    "past deadline": replace(TOGETHER, deadline="-1m"),
    "deadline now": replace(TOGETHER, deadline="now"),
    "Lp 0": replace(TOGETHER, lp="0"),
    "Lp above 1": replace(TOGETHER, lp="1.01"),
    "Lp that is none": replace(TOGETHER, lp="nan"),
    "negative tries": replace(TOGETHER, tries="-1"),
    "negative wait": replace(TOGETHER, wait="-1"),
    "tries without a deadline": replace(ANYWHERE, tries="3"),
    "start without named parts": replace(ANYWHERE, start="+1h"),
    "-p with -l": replace(ANYWHERE, program="date"),
    "no program": replace(ANYWHERE, words=()),
    "alternatives": replace(ANYWHERE, resources=("/core=8", "/core=4")),
    "two walltimes": replace(ANYWHERE, resources=("/core=8,walltime=1",), walltime="1"),
    "no resources at all": replace(ANYWHERE, resources=("walltime=1",)),
    "array of none": replace(ANYWHERE, array="0"),
    "array too large": replace(ANYWHERE, array="100001"),
    "NUL": replace(ANYWHERE, words=("a\0b",)),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_in_one_line(what: str) -> None:
    with pytest.raises(UsageError) as refusal:
        asked(WRONG[what])
    assert refusal.value.message
    assert refusal.value.hint
    assert "\n" not in str(refusal.value)


@given(st.text(alphabet="ab_:,=\"' rdef/nos2propty", max_size=60))
def test_any_text_is_parts_or_refused(text: str) -> None:
    try:
        parts = read_parts(text)
    except UsageError:
        return
    assert parts
    assert all(part.cluster.isidentifier() or part.cluster.isalnum() for part in parts)
    assert all(part.rdef for part in parts)
