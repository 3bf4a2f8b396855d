"""Dask grows and shrinks on one job: a real scheduler and real workers, and a server that is imitated."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from distributed import Client, Event

from oarpy.negotiation import dask_cluster
from oarpy.negotiation.dask_cluster import NegotiatedCluster
from oarpy.negotiation.profiles import BusyHosts
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

HOSTS = ("n1", "n2", "n3", "n4")


class ImitatedJob:
    """A job on a cluster of four hosts, which gives what is free and says nothing else."""

    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        self.hear = hear
        self.id: int | None = None
        self.ended: str | None = None
        self.view = {"all": BusyHosts.of([0.0])}
        self.free = list(HOSTS)
        self.said: list[tuple[str, object]] = []

    def subscribe(self, arguments: Sequence[str]) -> int:
        self.said.append(("subscribe", list(arguments)))
        self.id = 7
        return 7

    def clusters(self) -> dict[str, Any]:
        return {"clusters": {"all": {"hosts": len(HOSTS)}}}

    def request(self, hosts: Mapping[str, int], walltime: float) -> int:
        self.said.append(("request", dict(hosts)))
        self.tell("startNotify", tag=1, hosts=dict(hosts), names={"all": self.taken(hosts["all"])}, until=walltime)
        return 1

    def extend(self, hosts: Mapping[str, int], kind: str) -> int:
        self.said.append(("extend", dict(hosts)))
        tag = len(self.said)
        if hosts and hosts["all"] <= len(self.free):
            self.tell("granted", tag=tag, kind=kind, hosts=dict(hosts), names={"all": self.taken(hosts["all"])})
        elif hosts:
            self.tell("estimate", tag=tag, start=None, verdict="no_room", reason="no room")
        return tag

    def release(self, names: Sequence[str]) -> None:
        self.said.append(("release", sorted(names)))
        self.tell("released", names=list(names))

    def done(self) -> None:
        self.said.append(("done", None))
        self.tell("ended", reason="done")

    def close(self) -> None:
        self.said.append(("close", None))

    def taken(self, hosts: int) -> list[str]:
        names, self.free = self.free[:hosts], self.free[hosts:]
        return names

    def tell(self, word: str, **fields: object) -> None:
        self.ended = str(fields["reason"]) if word == "ended" else None
        teller = threading.Thread(target=self.hear, args=({"message": word, **fields},))
        teller.start()

    def of(self, word: str) -> list[object]:
        return [fields for said, fields in self.said if said == word]


def on_this_machine(job: int, host: str, program: Sequence[str]) -> Sequence[str]:
    assert (job, host in HOSTS) == (7, True)
    return program


def test_it_grows_with_the_work_and_gives_back_what_others_need_without_losing_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def square(number: int) -> int:
        Event("enough seen").wait()
        return number * number

    monkeypatch.setattr(dask_cluster, "_BEFORE_RECLAIM", 0.5)
    with (
        NegotiatedCluster(
            new_job=ImitatedJob, command=on_this_machine, scheduler_options={"host": "127.0.0.1"}
        ) as cluster,
        Client(cluster) as client,
    ):
        job = cluster.job
        assert isinstance(job, ImitatedJob)
        cluster.adapt(maximum=10, interval="100ms", wait_count=2, target_duration="500ms")
        results = client.map(square, range(300))
        until(lambda: cluster.observed == set(HOSTS), "all hosts have a worker")
        job.tell("reclaim", names=["n2", "n3"], by=time.time() + 2)
        until(lambda: ["n2", "n3"] in job.of("release"), "two hosts are released")
        until(lambda: not cluster.observed & {"n2", "n3"}, "their workers have left")
        until(lambda: job.of("extend")[-1:] == [{"all": 1}], "what is missing is asked for again, in part at last")
        Event("enough seen").set()
        assert client.gather(results) == [number * number for number in range(300)]
        del results
        until(lambda: cluster.plan == {"n1"}, "only the first host is left")
        assert job.of("extend")[-1] == {}
    assert job.of("request") == [{"all": 1}]
    assert [word for word, _ in job.said[-2:]] == ["done", "close"]


def test_a_worker_that_ends_is_started_again_and_all_is_closed_when_the_job_ends(tmp_path: Path) -> None:
    def at_the_second_attempt(_: int, host: str, program: Sequence[str]) -> Sequence[str]:
        return "sh", "-c", f"mkdir {tmp_path}/{host} && exit 3; exec {shlex.join(program)}"

    scheduler = {"host": "127.0.0.1"}
    with NegotiatedCluster(
        hosts=2,
        new_job=ImitatedJob,
        command=at_the_second_attempt,
        scheduler_options=scheduler,
        log_directory=str(tmp_path),
    ) as cluster:
        until(lambda: cluster.observed == {"n1", "n2"}, "both hosts have a worker")
        logs = cluster.get_logs(cluster=True, scheduler=False, workers=False)
        assert logs["Cluster"].count("a worker ended with 3, and is started again") == 2
        assert "File exists" in (tmp_path / "dask-worker.7.n1.log").read_text()
        cluster.job.tell("ended", reason="walltime")
        until(lambda: cluster.status.name == "closed", "it is closed")
        assert cluster.ended == "walltime"
