"""Orders by fair share and by several factors, fed from the accounting table; plug-ins; ``oarstat --priority``."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oarpy.cluster_state.order_plugins import GROUP, SiteOrders
from oarpy.cluster_state.priority_history import REFRESH, PriorityHistory
from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.configuration import Configuration, load
from oarpy.model.errors import UsageError
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.scheduler.order.queue_orders import ORDERS, fifo
from oarpy.scheduler.order.usage_shares import NO_HISTORY, Priorities
from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]

HOUR = 3600
Install = Callable[[str, str], None]


def account(
    connection: Connection,
    user: str,
    used: int,
    asked: int,
    *,
    days: float,
    project: str = "default",
    queue: str = "default",
) -> None:
    """Add what a user used and asked for (resource-seconds), in the window that began so many days ago."""
    begin = datetime.now(UTC) - timedelta(days=days)
    for kind, amount in (("USED", used), ("ASKED", asked)):
        connection.execute(
            "INSERT INTO accounting VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (begin, begin + timedelta(days=1), user, project, queue, kind, amount),
        )


def policy(connection: Connection, name: str, queue: str = "default") -> None:
    connection.execute("UPDATE queues SET policy = %s WHERE queue_name = %s", (name, queue))


def known(connection: Connection, configuration: Configuration | None = None) -> Priorities:
    with connection.transaction():
        reader = SnapshotReader(configuration or load())
        return reader.read(connection, int(time.time())).snapshot.priorities


def run_pass(connection: Connection, scheduler: Metascheduler | None = None) -> None:
    (scheduler or Metascheduler(load())).run_once(connection, datetime.now().astimezone())


def states(connection: Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())


def shown(shell: Shell, job: int) -> dict[str, Any]:
    return dict(json.loads(shell.done("oarstat", "--priority", str(job), "-J")))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package whose entry point NAME is a policy written in Python."""

    def one(name: str, text: str) -> None:
        module = f"policy_{name}"
        folder = tmp_path / name
        information = folder / f"{module}-1.0.dist-info"
        information.mkdir(parents=True)
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
        (information / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}:order\n", encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return one


def test_the_past_is_read_only_for_those_who_look_at_it(connection: Connection, shell: Shell) -> None:
    account(connection, "ann", 10, 20, days=2)
    assert known(connection) is NO_HISTORY
    policy(connection, "fairshare")
    assert known(connection).usage.used_by_user == {"ann": 10}


def test_windows_users_projects_and_what_runs(connection: Connection, shell: Shell) -> None:
    policy(connection, "fairshare")
    account(connection, "ann", 100, 200, days=2, project="sea")
    account(connection, "ann", 10, 20, days=3, project="air")
    account(connection, "bob", 5, 6, days=29)
    account(connection, "bob", 7000, 8000, days=31)
    account(connection, "bob", 9000, 9000, days=1, queue="besteffort")
    first, second = add_nodes(connection, "n1")
    add_job(
        connection,
        "Running",
        user="cyd",
        resources=[first, second],
        started=datetime.now(UTC) - timedelta(seconds=100),
        walltime=timedelta(hours=1),
    )
    found = known(connection)
    assert found.usage.used_by_user == pytest.approx({"ann": 110, "bob": 5, "cyd": 200}, abs=4)
    assert found.usage.asked_by_user == pytest.approx({"ann": 220, "bob": 6, "cyd": 7200})
    assert found.usage.used_by_project == pytest.approx({"sea": 100, "air": 10, "default": 205}, abs=4)
    assert found.resources == 2


def test_sums_are_kept_for_a_while(connection: Connection, shell: Shell) -> None:
    policy(connection, "fairshare")
    with connection.transaction():
        reading = SnapshotReader(load()).read(connection, int(time.time()))
    history, queues = PriorityHistory(load()), [_row(connection)]
    now = int(time.time())

    def users(at: int) -> set[str]:
        return set(history.read(connection, at, queues, reading.snapshot.platform).usage.used_by_user)

    assert users(now) == set()
    connection.execute("SET application_name = 'oarpy accounting'")
    account(connection, "ann", 10, 20, days=2)
    assert users(now + REFRESH - 1) == set()
    assert users(now + REFRESH) == {"ann"}


def test_sums_that_somebody_changes_by_hand_are_seen_at_once(connection: Connection, shell: Shell) -> None:
    policy(connection, "fairshare")
    with connection.transaction():
        reading = SnapshotReader(load()).read(connection, int(time.time()))
    history, queues = PriorityHistory(load()), [_row(connection)]
    now = int(time.time())
    for user in ("ann", "bob"):
        account(connection, user, 10, 20, days=2)
        found = history.read(connection, now, queues, reading.snapshot.platform)
        assert user in found.usage.used_by_user


def _row(connection: Connection) -> Any:
    from oarpy.store.passes.snapshot_rows import queues

    return next(queue for queue in queues(connection) if queue.name == "default")


def test_fairshare_starts_who_used_least(connection: Connection, shell: Shell) -> None:
    policy(connection, "fairshare")
    add_nodes(connection, "n1")
    account(connection, "ann", 1000, 1000, days=2)
    first, second = add_job(connection, user="ann"), add_job(connection, user="bob")
    run_pass(connection)
    assert states(connection) == {first: "Waiting", second: "toLaunch"}


def test_rank_and_karma_are_shown(connection: Connection, shell: Shell) -> None:
    policy(connection, "fairshare")
    add_nodes(connection, "n1")
    account(connection, "ann", 300, 300, days=2)
    account(connection, "bob", 100, 100, days=2)
    first, second = add_job(connection, user="ann"), add_job(connection, user="bob")
    found = shown(shell, first)
    assert (found["policy"], found["rank"]) == ("fairshare", {"place": 2, "among": 2})
    assert found["value"] == pytest.approx(2 * 0.75 + 0.75)
    assert found["ahead"] == {
        "jobs": 1,
        "resources": 2,
        "resource_hours": 2,
        "nearest": second,
        "nearest_value": pytest.approx(0.75),
        "nearest_key": [pytest.approx(0.75), found["ahead"]["nearest_key"][1], second],
    }
    assert {part["name"]: part["share"] for part in found["karma"]} == {"project": 1, "user": 0.75, "asked": 0.75}
    text = shell.done("oarstat", "--priority", str(first))
    assert text.startswith(f"Job {first} in queue default, policy fairshare: rank 2 of 2.\n")
    assert "user     0.7500  0.0000  2       +1.5000\n" in text
    assert text.endswith("Sum: karma 2.2500, the smallest goes first; the job right before has 0.7500.\n")


def test_every_factor_is_shown(connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    policy(connection, "multifactor")
    monkeypatch.setenv("OARPY_PRIORITY_SIZE_WEIGHT", "2")
    monkeypatch.setenv("OARPY_PRIORITY_QUEUE_FACTORS", "default=0.5")
    add_nodes(connection, "n1", "n2")
    job = add_job(connection, user="ann", types=["qos=0.5"], submitted_at=datetime.now(UTC) - timedelta(days=3.5))
    factors = {factor["name"]: factor for factor in shown(shell, job)["factors"]}
    assert list(factors) == ["age", "queue", "work", "size", "karma", "qos", "nice"]
    assert all(0 <= factor["value"] <= 1 for factor in factors.values())
    assert factors["age"]["value"] == pytest.approx(0.5, abs=0.01)
    assert (factors["queue"]["value"], factors["queue"]["contribution"]) == (0.5, 0)
    assert (factors["size"]["value"], factors["size"]["contribution"]) == (0.5, 1)
    assert (factors["work"]["value"], factors["work"]["measured"]) == (0.5, 2)
    assert (factors["qos"]["value"], factors["karma"]["value"]) == (0.5, 1)
    text = shell.done("oarstat", "--priority", str(job))
    assert "size     0.5000  2       +1.0000  2 resources\n" in text
    assert "The karma is made of\n" in text


def test_other_policies_and_states(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "n1")
    job, held = add_job(connection, user="ann"), add_job(connection, "Hold")
    assert shell.done("oarstat", "--priority", str(job)) == (
        f"Job {job} in queue default, policy fifo: rank 1 of 1.\nJobs go by date of submission.\n"
    )
    assert "rank 2 of 2, were it not held" in shell.done("oarstat", "--priority", str(held))
    run_pass(connection)
    result = shell("oarstat", "--priority", str(job))
    assert (result.status, result.err) == (
        1,
        f"oarstat: job {job} is toLaunch, so it has no rank (only jobs that wait have one)\n",
    )
    assert shell("oarstat", "--priority", "99").status == 4
    assert shell("oarstat", "--priority", "x").status == 2
    assert shell("oarstat", "--priority", "1", "--why", "1").status == 2


def test_a_plug_in_orders_its_queue(connection: Connection, shell: Shell, install: Install) -> None:
    install("youngest", "def order(candidate):\n    return (-candidate.job.id,)\n")
    shell.done("oarqueue", "--change", "default,3,youngest")
    add_nodes(connection, "n1")
    first, second = add_job(connection), add_job(connection)
    assert shown(shell, second)["rank"] == {"place": 1, "among": 2}
    found = shown(shell, first)
    assert (found["key"], found["ahead"]["nearest_key"]) == ([-first], [-second])
    assert shell.done("oarstat", "--priority", str(first)).endswith(
        "The policy is a plug-in.\n"
        f"It orders by ({-first}), the smallest goes first; the job right before has ({-second}).\n"
    )
    run_pass(connection)
    assert states(connection) == {first: "Waiting", second: "toLaunch"}


def test_the_expected_slowdown_of_a_job_and_of_the_one_before(connection: Connection, shell: Shell) -> None:
    shell.done("oarqueue", "--change", "default,3,slowdown")
    add_nodes(connection, "n1")
    long, short = add_job(connection, walltime=timedelta(hours=2)), add_job(connection, walltime=timedelta(hours=1))
    connection.execute("UPDATE jobs SET submitted_at = now() - interval '1 hour'")
    found = shown(shell, long)
    assert (found["policy"], found["rank"]) == ("slowdown", {"place": 2, "among": 2})
    assert (found["value"], found["ahead"]["nearest_value"]) == pytest.approx((1.5, 2.0), abs=0.1)
    told = shell.done("oarstat", "--priority", str(long)).splitlines()[-1]
    assert re.fullmatch(
        r"Jobs with the largest expected slowdown, \(waited \+ walltime\) / walltime, go first; "
        r"this one has 1\.[45]\d{3}; the job right before has [12]\.\d{4}\.",
        told,
    )
    run_pass(connection)
    assert states(connection)[short] == "toLaunch"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def order(candidate):\n    raise KeyError('karma')\n", "failed: KeyError: 'karma'"),
        ("import nothing_like_that\n", "policy_odd:order cannot be loaded: ModuleNotFoundError"),
        ("order = 7\n", "policy_odd:order is not a function"),
        ("def order(candidate):\n    return None if candidate.job.name else (0,)\n", "failed: TypeError"),
    ],
)
def test_a_broken_plug_in_stops_its_queue_only(
    connection: Connection, shell: Shell, install: Install, text: str, reason: str
) -> None:
    install("odd", text)
    shell.done("oarqueue", "--add", "strange,9,odd")
    add_nodes(connection, "n1", "n2", "n3")
    strange = [add_job(connection, queue_name="strange", job_name=name) for name in ("", "", "a")]
    other = add_job(connection)
    scheduler = Metascheduler(load())
    run_pass(connection, scheduler)
    assert states(connection)[other] == "toLaunch"
    assert {states(connection)[job] for job in strange} == {"Waiting"}
    (message,) = connection.execute("SELECT message FROM queues WHERE queue_name = 'strange'").fetchone() or ("",)
    assert message.startswith("policy 'odd' of queue 'strange' ")
    assert reason in message
    assert f"# strange: {message}\n" in shell.done("oarqueue")
    verdicts = connection.execute("SELECT verdict, reason FROM gantt_predictions ORDER BY job_id").fetchall()
    assert verdicts == [("never", message)] * 3
    assert message in shell.done("oarstat", "--priority", str(strange[0]))
    assert message in shell.done("oarstat", "--why", str(strange[0]))
    # saying it again would announce a change, which calls for a pass, which would say it again
    version = connection.execute("SELECT xmin FROM queues WHERE queue_name = 'strange'").fetchone()
    run_pass(connection, scheduler)
    assert connection.execute("SELECT xmin FROM queues WHERE queue_name = 'strange'").fetchone() == version
    policy(connection, "fifo", "strange")
    run_pass(connection, scheduler)
    assert connection.execute("SELECT message FROM queues WHERE queue_name = 'strange'").fetchone() == ("",)
    assert "toLaunch" in {states(connection)[job] for job in strange}


@pytest.mark.parametrize("key", ["'name'", "(10**400,)", "[1, 2]", "(candidate.job.user, 1)", "(float('inf'),)"])
def test_a_plug_in_may_order_by_anything(connection: Connection, shell: Shell, install: Install, key: str) -> None:
    install("odd", f"def order(candidate):\n    return {key}\n")
    shell.done("oarqueue", "--add", "strange,9,odd")
    add_nodes(connection, "n1", "n2")
    jobs = [add_job(connection, queue_name="strange") for _ in range(3)]
    run_pass(connection)
    run_pass(connection)
    assert sorted(states(connection)[job] for job in jobs) == ["Waiting", "toLaunch", "toLaunch"]
    kept = connection.execute("SELECT job_id, verdict = 'starts' FROM verdict_changes").fetchall()
    assert {job for job, starts in kept if starts} == {job for job in jobs if states(connection)[job] == "toLaunch"}
    assert {job for job, _ in kept} == {*jobs}


def test_whose_policy_orders_queues_of_equal_priority_does_not_change(
    connection: Connection, shell: Shell, install: Install
) -> None:
    """What a pass writes on a queue moves its row, so that an order of rows would put another queue first."""
    install("odd", "def order(candidate):\n    raise RuntimeError('one\\ntwo')\n")
    shell.done("oarqueue", "--add", "a,9,odd")
    shell.done("oarqueue", "--add", "b,9,fifo")
    add_nodes(connection, "n1", "n2", "n3")
    broken = add_job(connection, queue_name="a")
    scheduler = Metascheduler(load())
    run_pass(connection, scheduler)
    other = add_job(connection, queue_name="b")
    run_pass(connection, scheduler)
    run_pass(connection, Metascheduler(load()))
    assert states(connection) == {broken: "Waiting", other: "toLaunch"}
    reason = "policy 'odd' of queue 'a' failed: RuntimeError: one two"
    events = connection.execute("SELECT type, description FROM event_logs WHERE job_id = %s", [broken]).fetchall()
    assert events == [("SCHEDULER_SET_ASIDE", reason)]


def test_messages_of_people_stay(connection: Connection, shell: Shell) -> None:
    connection.execute("UPDATE queues SET message = 'closed on Sundays' WHERE queue_name = 'default'")
    add_job(connection)
    run_pass(connection)
    assert connection.execute("SELECT message FROM queues WHERE queue_name = 'default'").fetchone() == (
        "closed on Sundays",
    )


def test_names_of_the_scheduler_are_not_taken(install: Install) -> None:
    install("fifo", "def order(candidate):\n    return (0,)\n")
    install("late", "def order(candidate):\n    return (0,)\n")
    policies = SiteOrders()
    assert policies["fifo"] is fifo
    assert set(policies) == {*ORDERS, "late"}
    assert len(policies) == len(ORDERS) + 1
    assert policies.get("missing") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("USER_TARGETS", "ann"), ("USER_TARGETS", "ann=x"), ("PROJECT_TARGETS", "a=101"), ("QUEUE_FACTORS", "=1"),
     ("QUEUE_FACTORS", "a=-1"), ("QUEUE_FACTORS", "a=nan")],
)  # fmt: skip
def test_settings_that_cannot_be_read(key: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"OARPY_PRIORITY_{key}", value)
    with pytest.raises(UsageError, match=rf"priority\.{key.lower()}: '{value}' is not NAME=NUMBER"):
        SnapshotReader(load())


def test_targets(connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_PRIORITY_USER_TARGETS", "ann=75,bob=25")
    policy(connection, "fairshare")
    account(connection, "ann", 750, 750, days=2)
    account(connection, "bob", 250, 250, days=2)
    add_nodes(connection, "n1")
    jobs = add_job(connection, user="ann"), add_job(connection, user="bob")
    assert [shown(shell, job)["value"] for job in jobs] == [0, 0]
    assert [shown(shell, job)["rank"]["place"] for job in jobs] == [1, 2]
