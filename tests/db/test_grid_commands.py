"""Users submit, see and delete their grid jobs; admins keep the clusters. Known clients read what is printed."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from oarpy.client.session import Session, open_session
from oarpy.grid.calls.table import Cluster
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.reports import grid_job_views, job_explanation
from oarpy.grid.reports.grid_waits import all_parts_ran
from oarpy.grid.submission import rehearsal
from oarpy.grid.submission.grid_options import GridOptions
from oarpy.grid.submission.rehearsal import GridRehearsal, ends_of, rehearse
from oarpy.grid.submission.spread_rehearsal import SpreadRehearsal
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import (
    broker_jobs,
    broker_parts,
    clusters,
    door_sessions,
    metajobs,
    placing_tries,
    reallocation_passes,
    transactions,
)
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.transactions import NewGridPart
from tests.harness.oarsub_cluster import Connection, Submitter, settings

pytestmark = [pytest.mark.db, pytest.mark.kept]
PARTS = 'a:rdef="/nodes=2",b_2:rdef="/core=4":prop="mem > 4"'
HOSTS = {"a": ("a-1", "a-2"), "b_2": ("b-1", "b-1", "b-2")}


@pytest.fixture(autouse=True)
def broker(connection: Connection) -> None:
    """Two clusters."""
    clusters.put(connection, "a", "oarpy", ["oargriddoor", "campus"], place=1)
    clusters.put(connection, "b_2", "oarpy", ["ssh", "b"], speed=2, place=2)


def reserve(connection: Connection, job: int, walltime: float = 60) -> int:
    """Have all clusters of a job reserve its parts, for so many seconds; return the transaction."""
    components = broker_jobs.components(connection, [job])[job]
    transaction = transactions.begin(connection, "reserve", "claimer", job, 60)
    parts = [
        NewGridPart(f"{job}-{one.number}", job, one.number, one.cluster or "a", "reserved", walltime)
        for one in components
    ]
    transactions.add_parts(connection, transaction, parts)
    transactions.note_prepared(connection, transaction, {one.name: str(17 + one.component) for one in parts})
    assert transactions.decide(connection, transaction)
    for cluster in {one.cluster for one in parts}:
        transactions.note_known(connection, transaction, cluster)
    broker_jobs.move(connection, [job], GridJobState.MAPPED)
    return transaction


def begin(connection: Connection, job: int, at: float) -> None:
    """Have all parts of a job start."""
    for part in broker_parts.of_jobs(connection, [job]):
        broker_parts.move(connection, part.name, GridPartState.RUNNING, started=at, hosts=HOSTS[part.cluster])
    broker_jobs.move(connection, [job], GridJobState.RUNNING, started=at)


@contextmanager
def process(environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    everything = {**environment, **settings()}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=everything, stdout=pipe, stderr=pipe, text=True) as running:
        yield running


def waits_for(running: subprocess.Popen[str]) -> int:
    """Return the job whose answer the command waits for."""
    assert running.stdout is not None
    found = re.fullmatch(r"\[OAR_GRIDSUB\] Grid job (\d+) waits for its clusters\n", running.stdout.readline())
    assert found
    return int(found[1])


def test_parts_on_named_clusters_are_waited_for(
    connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]
) -> None:
    words = ("oargridsub", "-v", "-s", "+1h", "-w", "1:0:0", "-p", "./run", PARTS)
    with process(cluster_environment, *words) as running:
        job = waits_for(running)
        reserve(connection, job)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    # what execo_g5k looks for
    assert re.findall(r"^\[OAR_GRIDSUB\] Grid reservation id = (\d+)\s*$", out, re.MULTILINE) == [str(job)]
    assert "[OAR_GRIDSUB] [a] Reservation success on a : batchId = 17\n" in out


def test_links_between_clusters_of_a_broker_are_described(oarsub: Submitter) -> None:
    link = ("links", "set", "b_2", "a", "--latency", "0.5", "--bandwidth", "1e6")
    assert oarsub(*link, command="oaradmin").status == 0
    unknown = oarsub("links", "set", "c", *link[3:], command="oaradmin")
    assert (unknown.status, unknown.out) == (4, "")
    assert "there is no cluster 'c'" in unknown.err
    assert json.loads(oarsub("links", "list", "-J", command="oaradmin").out) == [["a", "b_2", 0.5, 1e6]]


def test_one_cluster_refuses(connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]) -> None:
    with process(cluster_environment, "oargridsub", "-w", "1:0:0", PARTS) as running:
        job = waits_for(running)
        broker_jobs.move(connection, [job], GridJobState.ERROR, "b_2: the queue is closed")
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (3, "")
    line = f"grid job {job} is refused: b_2: the queue is closed (nothing of it is left on any cluster)"
    assert err == f"oargridsub: {line}\n"


def test_without_a_broker_it_is_said_what_to_do(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OARPY_GRID_ENABLED")
    result = oarsub("-l", "/core=1", "date", command="oargridsub")
    assert result.status == 0
    assert result.err == (
        "Warning: no broker runs here, and nothing happens to grid jobs until one does"
        " (an admin sets grid.enabled = true and restarts the server)\n"
    )
    connection.execute("UPDATE grid_clusters SET active = false")
    refused = oarsub("-l", "/core=1", "date", command="oargridsub")
    assert (refused.status, "grid.enabled = true" in refused.err) == (3, True)


def test_nobody_answers(connection: Connection, oarsub: Submitter) -> None:
    result = oarsub("--answer-timeout", "0", PARTS, command="oargridsub")
    (job,) = broker_jobs.of_everybody(connection)
    assert (result.status, job.state) == (6, GridJobState.SUBMITTED)
    assert f"oargridstat {job.id} tells, oargriddel {job.id} gives it up" in result.err


def gridsub(oarsub: Submitter, *words: str) -> list[int]:
    """Submit what returns at once; return the ids printed."""
    result = oarsub(*words, command="oargridsub")
    assert (result.status, result.err) == (0, ""), result
    return [int(id_) for id_ in re.findall(r"Grid reservation id = (\d+)$", result.out, re.MULTILINE)]


def answer(oarsub: Submitter, *words: str) -> Any:
    """Return what a command prints as JSON."""
    result = oarsub(*words, "--json", command="oargridstat")
    assert (result.status, result.err) == (0, ""), result
    return json.loads(result.out)


def test_any_cluster_and_arrays(connection: Connection, oarsub: Submitter) -> None:
    (job,) = gridsub(oarsub, "-l", "/nodes=2/core=4,walltime=0:10:0", "echo", "a b")
    array = gridsub(oarsub, "-l", "/core=1", "--array", "3", "date")
    (shown,) = answer(oarsub, str(job))
    assert (shown["kind"], shown["state"], shown["program"], shown["walltime"]) == (
        "mapped",
        "Submitted",
        "echo 'a b'",
        600,
    )
    assert [one["procs"] for one in shown["components"]] == [8]
    assert [one["array_id"] for one in answer(oarsub)] == [None, array[0], array[0], array[0]]


def test_components_before_a_deadline(connection: Connection, oarsub: Submitter) -> None:
    words = ("--components", "3", "-l", "/core=8", "--deadline", "+30m", "--lp", "0.5", "--tries", "2", "--wait", "10")
    (job,) = gridsub(oarsub, *words, "./run")
    (shown,) = answer(oarsub, str(job))
    assert (shown["kind"], shown["lp"], shown["tries"], shown["wait"]) == ("coallocated", 0.5, 2, 10)
    assert shown["deadline"] - shown["submitted"] == pytest.approx(1800, abs=60)
    assert [one["cluster"] for one in shown["components"]] == [None] * 3


def test_known_clients_read_what_is_shown(
    connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]
) -> None:
    result = oarsub("--answer-timeout", "0", "-s", "+1h", "-w", "2:3:4", PARTS, command="oargridsub")
    assert result.status == 6
    (row,) = broker_jobs.of_everybody(connection)
    reserve(connection, row.id)
    assert re.findall(r"Reservation # (\d+):", oarsub(command="oargridstat").out, re.MULTILINE) == [str(row.id)]
    shown = oarsub(str(row.id), command="oargridstat").out
    dates = re.findall(r"start date : (\d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d)", shown)
    assert [datetime.fromisoformat(date).timestamp() for date in dates] == [int(row.deadline or 0)]
    assert re.findall(r"walltime : (\d+:\d?\d:\d?\d)", shown) == ["2:3:4"]
    assert re.findall(r"^\t(\w+) --> (\d+)", shown, re.MULTILINE) == [("a", "17"), ("b_2", "18")]
    why = oarsub("--why", str(row.id), command="oargridstat").out
    assert "has its processors, to start at its date, on b_2, as job 18 there\n" in why
    begin(connection, row.id, 1_800_000_000)
    with process(cluster_environment, "oargridstat", "-wl", str(row.id)) as running:
        out, _ = running.communicate(timeout=60)
    assert re.findall(r"(\S+)", out) == ["a-1", "a-2", "b-1", "b-2"]
    assert "start date : 2027-01-15" in oarsub(str(row.id), command="oargridstat").out


def test_waiting_until_all_parts_run(
    connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]
) -> None:
    assert oarsub("--answer-timeout", "0", PARTS, command="oargridsub").status == 6
    (row,) = broker_jobs.of_everybody(connection)
    reserve(connection, row.id)
    with process(cluster_environment, "oargridstat", "-w", "-l", str(row.id)) as running:
        begin(connection, row.id, 1_800_000_000)
        assert running.communicate(timeout=60) == ("a-1\na-2\nb-1\nb-2\n", "")
    (missed,) = gridsub(oarsub, "-l", "/core=8", "--components", "2", "--deadline", "+1h", "date")
    broker_jobs.move(connection, [missed], GridJobState.MISSED, "no room")
    result = oarsub("-w", "-l", str(missed), command="oargridstat")
    assert (result.status, result.out) == (1, "")
    assert f"grid job {missed} is Missed and never ran: no room" in result.err


def test_parts_do_not_all_run_when_the_first_one_does(connection: Connection, oarsub: Submitter) -> None:
    assert oarsub("--answer-timeout", "0", PARTS, command="oargridsub").status == 6
    (row,) = broker_jobs.of_everybody(connection)
    reserve(connection, row.id)
    first, second = broker_parts.of_jobs(connection, [row.id])
    broker_jobs.move(connection, [row.id], GridJobState.RUNNING, started=1_800_000_000)
    for part, all_run in ((first, False), (second, True)):
        broker_parts.move(connection, part.name, GridPartState.RUNNING, started=1_800_000_000)
        with open_session("oargridstat") as session:
            assert all_parts_ran(session, broker_jobs.read(connection, [row.id])[0]) is all_run


def test_why_and_moves(connection: Connection, oarsub: Submitter) -> None:
    (job,) = gridsub(oarsub, "-l", "/core=8", "--components", "2", "--deadline", "+1h", "date")
    placing_tries.plan(connection, job, 0, 1_800_000_000, last=False)
    placing_tries.settle(connection, job, 0, "no room", {"a": 3, "b_2": 0}, "the second component fits nowhere")
    placing_tries.plan(connection, job, 1, 1_800_000_600, last=True)
    shown = oarsub("--why", str(job), command="oargridstat").out
    assert re.search(
        r"^  try 0 at .* : no room; the second component fits nowhere; idle processors: a 3, b_2 0$", shown, re.M
    )
    assert re.search(r"^  last try is due at ", shown, re.M)
    (mapped,) = gridsub(oarsub, "-l", "/core=1", "date")
    made = reallocation_passes.begin(connection, 1, "mct", 1)
    move = reallocation_passes.add_move(connection, made, mapped, "a", "b_2", 1_800_000_000, 1_799_999_000)
    reallocation_passes.settle_move(connection, move, "moved")
    (told,) = answer(oarsub, "--moves")
    assert (told["job"], told["from"], told["to"], told["old"], told["new"]) == (mapped, "a", "b_2", 1.8e9, 1799999000)
    assert f"job {mapped}: a -> b_2" in oarsub("--moves", str(mapped), command="oargridstat").out


def test_a_job_over_clusters_says_what_was_promised_and_how_it_moved(connection: Connection, oarsub: Submitter) -> None:
    words = ("--answer-timeout", "0", "--parts", "any", "-l", "core=6,walltime=1:0:0", "--overhead", "20%")
    assert oarsub(*words, "--at-most", "a=4", "date", command="oargridsub").status == 6
    (job,) = (row.id for row in broker_jobs.of_everybody(connection))
    shown = oarsub(str(job), command="oargridstat").out
    assert "  promised start : not known yet\n" in shown
    assert "  operation : shift\n  overhead : 20%\n  at most : a=4\n" in shown
    metajobs.note_look(connection, job, "a", {"a": "4 free now, 8 at most", "b_2": "it reserves nothing"})
    metajobs.note_place(connection, job, 1_800_000_000, 1_800_004_320)
    made = transactions.begin(connection, "amend", "claimer", job, 60)
    old, new = (1_800_000_000, 1_800_004_320, {"a": 4, "b_2": 2}), (1_799_999_000, 1_800_002_600, {"b_2": 6})
    metajobs.begin_shift(connection, metajobs.NewShift(job, "remap", "b_2", *old, *new), made)
    metajobs.settle_shift(connection, made, "given up", "b_2: no room")
    why = oarsub("--why", str(job), command="oargridstat").out
    assert "  when it was placed, a : 4 free now, 8 at most\n" in why
    moves = oarsub("--moves", str(job), command="oargridstat").out
    assert re.search(
        r"remap a 4, b_2 2 at .* -> b_2 6 at .*, a job ended early on b_2, .*: given up \(b_2: no room\)", moves
    )
    (told,) = answer(oarsub, "--moves", str(job))
    assert (told["operation"], told["old"]["start"], told["new"]["parts"]) == ("remap", 1_800_000_000, {"b_2": 6})
    (shown,) = answer(oarsub, str(job))
    assert shown["metajob"]["promised_end"] == 1_800_004_320
    assert shown["walltime"] == 3600
    reserve(connection, job, walltime=4320)
    for options in (("--why",), ()):
        assert re.search(r"walltime( :)? 1:12:0", oarsub(*options, str(job), command="oargridstat").out), options
    (shown,) = answer(oarsub, str(job))
    assert shown["walltime"] == 4320


def test_users_see_and_delete_their_own_jobs(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own,) = gridsub(oarsub, "-l", "/core=1", "date")
    (other,) = gridsub(oarsub, "-l", "/core=1", "date")
    connection.execute("UPDATE grid_jobs SET user_name = 'somebody' WHERE id = %s", [other])
    result = oarsub(str(own), str(other), "99", command="oargriddel")
    assert result.status == 4
    assert [job.id for job in broker_jobs.of_everybody(connection) if job.delete_asked] == [own, other]  # an admin
    connection.execute("UPDATE grid_jobs SET delete_asked = NULL")
    assert [one["id"] for one in answer(oarsub, "--all")] == [own, other]
    assert [one["id"] for one in answer(oarsub)] == [own]
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    for command, word in (("oargriddel", str(other)), ("oargridstat", str(other)), ("oargridstat", "--all")):
        assert oarsub(word, command=command).status == 5
    assert oarsub(str(own), str(other), command="oargriddel").status == 5
    assert [job.id for job in broker_jobs.of_everybody(connection) if job.delete_asked] == [own]
    for words in (("passes", "start"), ("doubts",), ("clusters", "disable", "a"), ("clusters", "remove", "a")):
        assert oarsub(*words, command="oargridctl").status == 5
    assert "Door" not in oarsub("clusters", "list", command="oargridctl").out


def test_a_job_that_is_over_is_not_deleted(connection: Connection, oarsub: Submitter) -> None:
    array = gridsub(oarsub, "-l", "/core=1", "--array", "2", "date")
    broker_jobs.move(connection, array[:1], GridJobState.ERROR, "deleted")
    assert oarsub(str(array[0]), command="oargriddel").status == 1
    assert oarsub("--array", str(array[0]), command="oargriddel").out == (
        f"Deleting the grid job = {array[1]} ...REGISTERED.\n"
    )


def test_admins_keep_the_clusters(connection: Connection, oarsub: Submitter) -> None:
    door = ("--door", "ssh -i 'a key' oargrid@c", "--speed", "1.5", "--dedicated", "--place", "3")
    assert oarsub("clusters", "add", "c", *door, command="oargridctl").status == 0
    assert oarsub("clusters", "disable", "a", "b_2", command="oargridctl").status == 0
    shown = json.loads(oarsub("clusters", "list", "--json", command="oargridctl").out)
    assert [(one["name"], one["active"], one["speed"]) for one in shown] == [
        ("a", False, 1),
        ("b_2", False, 2),
        ("c", True, 1.5),
    ]
    assert (shown[2]["door"], shown[2]["dedicated"], shown[2]["place"]) == (
        ["ssh", "-i", "a key", "oargrid@c"],
        True,
        3,
    )
    assert oarsub("a:rdef=/core=1", command="oargridsub").status == 3
    assert oarsub("d:rdef=/core=1", command="oargridsub").status == 4
    assert oarsub("clusters", "enable", "a", "d", command="oargridctl").status == 4
    assert [one.active for one in clusters.every(connection)] == [False, False, True]
    gridsub(oarsub, "-l", "/core=1", "date")
    assert oarsub("clusters", "remove", "c", command="oargridctl").status == 0
    assert oarsub("-l", "/core=1", "date", command="oargridsub").status == 3


def test_passes_and_doubts(connection: Connection, oarsub: Submitter) -> None:
    assert oarsub("passes", "start", command="oargridctl").out == "Pass 1 is asked for.\n"
    (asked,) = json.loads(oarsub("passes", "list", "-J", command="oargridctl").out)
    assert (asked["id"], asked["began"]) == (1, None)
    (job,) = gridsub(oarsub, "-l", "/core=1", "date")
    transaction = transactions.begin(connection, "place", "mapper", job, 60)
    transactions.add_parts(connection, transaction, [NewGridPart("p", job, 0, "a", "queued", 60)])
    transactions.give_up(connection, transaction, "it is slow")
    transactions.note_unknown(connection, transaction, "a", "no route")
    (doubt,) = json.loads(oarsub("doubts", "--json", command="oargridctl").out)
    assert (doubt["cluster"], doubt["committed"], doubt["asked"], doubt["message"]) == ("a", False, 1, "no route")
    assert "no route" in oarsub("doubts", command="oargridctl").out


def simulated(row: GridClusterRow) -> Cluster:
    """A cluster of 8 processors, ``a`` busy for 1,000 seconds; ``b_2`` says nothing."""
    cluster = SimulatedCluster(row.name, 8, clock=VirtualClock(1_800_000_000))
    if row.name == "b_2":
        cluster.faults.silent("estimate")
    else:
        cluster.submit("local", procs=6, walltime=1000)
    return cluster


def rehearsed(session: Session, options: GridOptions, opening: Callable[[GridClusterRow], Cluster]) -> GridRehearsal:
    """A dry run of a job that is not one program over clusters."""
    found = rehearse(session, options, opening)
    assert isinstance(found, GridRehearsal)
    return found


@pytest.mark.usefixtures("oarsub")
def test_a_dry_run_says_where_a_program_over_clusters_would_begin(connection: Connection) -> None:
    opened: dict[str, SimulatedCluster] = {}

    def opening(row: GridClusterRow) -> Cluster:
        opened[row.name] = SimulatedCluster(row.name, 8)
        return opened[row.name]

    for name in ("a", "b_2"):
        clusters.note_description(connection, name, 8, ["reserve", "foresee"], 0)
    asked = GridOptions(words=("date",), parts="any", overhead="20%")
    with open_session("oargridsub") as session:
        found = rehearse(session, replace(asked, resources=("core=12,walltime=0:10:0",)), opening)
        never = rehearse(session, replace(asked, resources=("core=17",)), opening)
    assert isinstance(found, SpreadRehearsal)
    assert found.place is not None
    assert found.place.end - found.place.start == 720
    assert (found.data()["parts"], found.refused) == ({"a": 8, "b_2": 4}, False)
    assert "It would begin at " in found.text()
    assert never.refused
    assert "It has no room.\n" in never.text()
    assert {name: one.calls for name, one in opened.items()} == {"a": ["slots"], "b_2": ["slots"]}
    assert broker_jobs.of_everybody(connection) == []


def test_a_dry_run_asks_the_clusters_and_stores_nothing(connection: Connection, oarsub: Submitter) -> None:
    with open_session("oargridsub") as session:
        found = rehearsed(session, GridOptions(words=("date",), resources=("/core=8,walltime=0:10:0",)), simulated)
        (job,) = gridsub(oarsub, "-l", "/core=2,walltime=0:10:0", "date")
        view = grid_job_views.views(session.connection, broker_jobs.read(session.connection, [job]))[0]
        ends = ends_of(session, view, simulated)
        why = job_explanation.standing(session.connection, view, ends).text()
    first, silent = found.ends
    assert (first.end, first.idle, silent.end) == (1_800_001_600, 2, None)
    assert silent.error
    assert (found.refused, found.data()["best"]) == (False, "a")
    assert "It would end first on a.\n" in found.text()
    assert ends[0].end == 1_800_000_600
    assert "no cluster has taken it yet" in why
    assert "2 processors idle" in why


@pytest.mark.usefixtures("oarsub")
def test_a_dry_run_that_nobody_answers_refuses_nothing(connection: Connection) -> None:
    clusters.remove(connection, "a")
    with open_session("oargridsub") as session:
        found = rehearsed(session, GridOptions(words=("date",), resources=("/core=8,walltime=0:10:0",)), simulated)
    assert (found.refused, found.data()["best"]) == (False, None)
    assert "Nobody knows when it would end: no cluster that could run it answers.\n" in found.text()


@pytest.mark.usefixtures("oarsub")
def test_doors_keep_places_for_the_modules_when_many_users_ask(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "_MOST_AT_ONCE", 1)
    opened: list[str] = []

    def opening(row: GridClusterRow) -> Cluster:
        opened.append(row.name)
        return simulated(row)

    options = GridOptions(words=("date",), resources=("/core=2,walltime=0:10:0",))
    with open_session("oargridsub") as session:
        with door_sessions.place_to_ask(connection, 1) as free:
            found = rehearsed(session, options, opening)
        assert (free, opened, found.refused) == (True, [], False)
        assert {one.error for one in found.ends} == {"not asked: 1 users ask clusters at present; try again"}
        for _ in range(2):
            assert rehearsed(session, options, opening).ends[0].end is not None


def test_clocks_that_are_off_change_no_expected_end(connection: Connection, oarsub: Submitter) -> None:
    clusters.note_description(connection, "a", 8, ["claim"], 600.0)
    (job,) = gridsub(oarsub, "-l", "/core=2,walltime=0:10:0", "date")
    with open_session("oargridsub") as session:
        found = rehearsed(session, GridOptions(words=("date",), resources=("/core=2,walltime=0:10:0",)), simulated)
        view = grid_job_views.views(session.connection, broker_jobs.read(session.connection, [job]))[0]
        ends = ends_of(session, view, simulated)
    assert [one[0].end for one in (found.ends, ends)] == [1_800_000_000] * 2


@pytest.mark.usefixtures("oarsub")
def test_a_dry_run_of_what_can_never_run_is_refused(connection: Connection) -> None:
    clusters.remove(connection, "b_2")
    with open_session("oargridsub") as session:
        found = rehearsed(session, GridOptions(words=("date",), resources=("/core=9",)), simulated)
    assert (found.refused, broker_jobs.of_everybody(connection)) == (True, [])
    assert "It can never run.\n" in found.text()
