"""How busy the GPUs of jobs are: added up while they run, shown; jobs that leave theirs idle are told, then ended."""

from __future__ import annotations

import json

import pytest

from oarpy.configuration import load
from oarpy.model.errors import UsageError
from oarpy.modules.launcher.gpu_uses import GpuUses
from oarpy.wire.messages import MeasuredGpu, MeasureGpus
from tests.harness.sample_cluster import Shell
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db

USES = "SELECT job_id, gpus, busy, memory, memory_peak, memory_total FROM gpu_uses ORDER BY 1"
IDLE = "SELECT idle_since IS NOT NULL, warned_at IS NOT NULL FROM gpu_uses"


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Two nodes, each with two GPUs of one core each."""
    made = SmallCluster(connection, with_settings(jobs={"idle_gpu": "15m: warn, 1h: end", "measure_gpus": 1000.0}))
    made.add_nodes("n1", "n2")
    connection.execute("ALTER TABLE resources ADD gpu text, ADD gpudevice integer")
    connection.execute("INSERT INTO resource_properties VALUES ('gpu', 'text', false), ('gpudevice', 'integer', false)")
    connection.execute("UPDATE resources SET gpu = 'g' || resource_id, gpudevice = resource_id % 2")
    for name in ("n1", "n2"):
        made.node(name).gpus = 2
        tell(made, name, 0, 0)
    made.settle()
    return made


def tell(cluster: SmallCluster, node: str, *busy: int | None) -> None:
    """Have the drivers of a node tell how busy its GPUs are."""
    cluster.node(node).measured = {
        number: MeasuredGpu(number, one, (number + 1) << 20, 1 << 30) for number, one in enumerate(busy)
    }


def look(cluster: SmallCluster, since: float = 0) -> None:
    """Let ``since`` seconds pass, and the launcher look."""
    cluster.sql(
        "UPDATE gpu_uses SET looked_at = looked_at - make_interval(secs => %(s)s),"
        " idle_since = idle_since - make_interval(secs => %(s)s)".replace("%(s)s", str(since))
    )
    part = next(part for part in cluster.launcher._parts if isinstance(part, GpuUses))
    part._ask_at = 0.0
    cluster.settle()


def test_what_nodes_tell_is_added_up_for_each_job(cluster: SmallCluster, shell: Shell) -> None:
    one, all_of_them, none = cluster.submit("/gpu=1"), cluster.submit("/gpu=3"), cluster.submit("/core=1")
    cluster.settle()
    assert cluster.states([one, all_of_them, none]) == ["Running", "Running", "Waiting"]
    tell(cluster, "n1", 50, 100)
    tell(cluster, "n2", 30, None)
    look(cluster)
    assert sorted(node for node, _ in cluster.sent(MeasureGpus)) == ["n1", "n2"]
    (first, second) = cluster.sql(USES)
    assert first[:2] == (one, 1)
    assert first[2] in (0.5, 1.0)
    assert second[:2] == (all_of_them, 3)
    assert second[3:] == (second[3], 2 << 20, 1 << 30)
    cluster.sql("UPDATE gpu_uses SET seconds = 100, busy_seconds = 40, busy = 0")
    look(cluster, 100_000)
    assert dict(cluster.sql("SELECT job_id, seconds FROM gpu_uses")) == {
        one: 3100,  # a look stands for three periods at most
        all_of_them: 6100,  # a GPU of which nothing is told does not count
    }
    cluster.end(one)
    cluster.settle()
    cluster.sql("UPDATE jobs SET cpu_seconds = 1 WHERE job_id = %s", one)
    (found,) = json.loads(shell("oarstat", "--efficiency", str(one), "-J").out)
    assert (found["gpus"], found["gpu_memory"]) == (1, 1 << 30)
    assert 0.4 < found["gpu_efficiency"] < 1
    assert "GPU %" in shell("oarstat", "--efficiency", str(one)).out
    assert "oarpy_gpus_measured 3\n" in shell("oarpy", "metrics").out


def test_a_number_that_no_gpu_has_keeps_no_other_gpu_from_being_measured(cluster: SmallCluster) -> None:
    cluster.sql("ALTER TABLE resources ALTER gpudevice TYPE bigint")
    cluster.sql(
        "UPDATE resources SET gpudevice = (%s::bigint[])[1 + gpudevice] WHERE network_address = 'n1'", [0, 1 << 40]
    )
    cluster.sql("UPDATE resources SET gpudevice = -1 WHERE network_address = 'n2' AND gpudevice = 1")
    job = cluster.submit("/gpu=4")
    cluster.settle()
    look(cluster)
    asked = {node: order.gpus for node, order in cluster.sent(MeasureGpus) if isinstance(order, MeasureGpus)}
    assert asked == {"n1": (0,), "n2": (0,)}
    assert [(row[0], row[1]) for row in cluster.sql(USES)] == [(job, 4)]
    assert cluster.sql(IDLE) == [(False, False)], "not known of two"


def test_who_leaves_gpus_idle_is_told_and_then_ended(cluster: SmallCluster) -> None:
    job = cluster.submit("/gpu=2")
    cluster.sql("UPDATE jobs SET notify = 'mail:me@there' WHERE job_id = %s", job)
    cluster.settle()
    look(cluster)
    assert cluster.sql(IDLE) == [(True, False)]
    for _ in range(2):
        look(cluster, 500)
    told = "its GPUs have been idle for 0:15:0; after 1:0:0 it is ended"
    events = "SELECT description FROM event_logs WHERE type = 'GPU_IDLE'"
    assert cluster.sql(events) == [(told,)]
    assert (f"GPU_IDLE: {told}",) in cluster.sql("SELECT comment FROM notices")
    tell(cluster, "n1", 100, 1)
    look(cluster, 500)
    assert cluster.sql(IDLE) == [(False, False)], "it computes again"
    tell(cluster, "n1", 0, 0)
    look(cluster, 500)
    look(cluster, 100_000)
    assert cluster.sql(IDLE) == [(True, False)], "nobody looked for long: it may have computed"
    for _ in range(8):
        look(cluster, 500)
    assert cluster.sql(events) == [(told,)] * 2
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert cluster.job(job, "message") == "killed: its GPUs were idle for 1:0:0"


def test_a_job_whose_node_is_silent_is_not_ended_when_another_one_answers(cluster: SmallCluster) -> None:
    jobs = [cluster.submit("/nodes=1/gpu=2") for _ in range(2)]
    cluster.settle()
    look(cluster)
    assert cluster.sql(IDLE) == [(True, False)] * 2
    cluster.node("n2").measured = {}
    tell(cluster, "n1", 100, 100)
    look(cluster, 2 * 3600)
    cluster.settle()
    assert cluster.states(jobs) == ["Running", "Running"]
    assert cluster.sql("SELECT count(*) FROM event_logs WHERE type = 'GPU_IDLE'") == [(0,)]


def test_a_gpu_of_which_nothing_is_told_is_not_idle(cluster: SmallCluster) -> None:
    cluster.submit("/gpu=2")
    tell(cluster, "n1", 0, None)
    cluster.settle()
    look(cluster)
    assert cluster.sql(IDLE) == [(False, False)]


def test_a_driver_that_hangs_is_told_once(cluster: SmallCluster) -> None:
    cluster.submit("/gpu=4")
    cluster.settle()
    cluster.node("n2").measured = None
    told = "SELECT type, hosts FROM event_logs WHERE type = 'GPUS_NOT_MEASURED'"
    for looks in range(1, 7):
        look(cluster)
        assert cluster.sql(told) == ([("GPUS_NOT_MEASURED", ["n2"])] if looks > 3 else [])
    tell(cluster, "n2", 0, 0)
    look(cluster)
    cluster.node("n2").measured = None
    for _ in range(4):
        look(cluster)
    assert len(cluster.sql(told)) == 2


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("15m", "jobs.idle_gpu: '15m' does not say what to do when"),
        ("15m: warn, 10m: warn", "jobs.idle_gpu: '10m: warn' does not say what to do when"),
        ("soon: end", "jobs.idle_gpu: 'soon' is not a duration"),
        ("1h: warn, 15m: end", "jobs.idle_gpu: '1h: warn, 15m: end' warns when the job is over"),
    ],
)
def test_settings_that_say_nothing_are_refused(setting: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load({"OARPY_JOBS_IDLE_GPU": setting})


def test_nobody_is_idle_where_nobody_looks() -> None:
    with pytest.raises(UsageError, match="nobody looks"):
        load({"OARPY_JOBS_IDLE_GPU": "1h: end", "OARPY_JOBS_MEASURE_GPUS": "0"})
    with pytest.raises(UsageError, match="50 s is less than"):
        load({"OARPY_JOBS_IDLE_GPU": "50s: warn, 1h: end"})
