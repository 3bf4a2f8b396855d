"""What every transport promises, whatever is behind it. A test class for each kind derives from this one.

Commands are limited to what the fake's script understands: ``exit N``, ``sleep N``.
"""

from __future__ import annotations

import os

from oarpy.transport.node import NodeAddress
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import (
    ChangeWalltime,
    ChannelLost,
    Clean,
    Cleaned,
    Ended,
    Forget,
    Gpus,
    Kill,
    Load,
    Ping,
    Pong,
    Ready,
    Refused,
    Resume,
    Resumed,
    Signal,
    Start,
    Started,
    Suspend,
    Suspended,
    TellGpus,
    TellLoad,
)
from tests.harness.transport_driver import Driver
from tests.harness.waiting import until

FIRST = JobKey(1, 1)


class Conformance:
    """Tests of a ``driver`` fixture, whose node is not connected yet."""

    def test_a_job_starts_and_ends_with_its_status(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "exit 3"))
        ended = driver.ended(1)
        assert ended.key == FIRST
        assert ended.reason == "exited"
        assert ended.status is not None
        assert os.waitstatus_to_exitcode(ended.status) == 3
        assert ended.start is not None
        assert ended.start <= ended.end

    def test_many_jobs_in_one_message(self, driver: Driver) -> None:
        driver.connect()
        driver.start(*(driver.spec(job, f"exit {job}", environment={"A": "b" * 1000}) for job in range(1, 21)))
        codes: dict[int, int | None] = {}
        while len(codes) < 20:
            ended = driver.expect(Ended)
            codes[ended.key.job] = os.waitstatus_to_exitcode(ended.status or 0)
        assert codes == {job: job for job in range(1, 21)}

    def test_a_start_seen_before_is_answered_not_run_again(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "sleep 600"))
        first = driver.started(1)
        driver.start(driver.spec(1, "exit 5"))
        assert driver.started(1) == first
        assert driver.kill(1).reason == "killed"
        driver.start(driver.spec(1, "exit 5"))
        assert driver.ended(1).reason == "killed"

    def test_another_attempt_is_another_job(self, driver: Driver) -> None:
        driver.connect()
        assert driver.run(driver.spec(1, "exit 1")).status == 1 << 8
        assert driver.run(driver.spec(1, "exit 2", attempt=2)).status == 2 << 8

    def test_kill_ends_a_running_job(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "sleep 600"))
        driver.started(1)
        ended = driver.kill(1)
        assert (ended.reason, ended.left) == ("killed", 0)
        assert ended.start is not None

    def test_kill_before_the_start_refuses_the_late_start(self, driver: Driver) -> None:
        driver.connect()
        ended = driver.kill(1)
        assert (ended.reason, ended.start, ended.status) == ("killed", None, None)
        driver.start(driver.spec(1, "exit 0"))
        assert driver.ended(1).start is None

    def test_forgotten_jobs_are_not_spoken_of_and_never_start_again(self, driver: Driver) -> None:
        driver.connect()
        driver.run(driver.spec(1, "exit 0"))
        driver.send(Forget((FIRST,)))
        driver.start(driver.spec(1, "exit 0"))
        assert driver.refused(1).reason == "FORGOTTEN"
        driver.send(Kill((FIRST,)))
        assert [type(report) for report in driver.said_until_pong()] == [Refused]
        assert [report.key for report in driver.connect().jobs] == []

    def test_an_order_for_a_running_job_is_answered_by_what_became_of_it(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(2, "exit 0"))
        driver.ended(2)
        driver.send(Suspend((JobKey(2, 1),)))
        assert driver.ended(2).status == 0
        driver.send(ChangeWalltime((JobKey(2, 1), JobKey(3, 1)), 60))
        assert driver.ended(2).status == 0
        assert driver.said_until_pong() == []

    def test_ping(self, driver: Driver) -> None:
        driver.connect()
        driver.send(Ping("hello"))
        assert driver.expect(Pong).token == "hello"

    def test_load(self, driver: Driver) -> None:
        driver.connect()
        driver.send(TellLoad())
        load = driver.expect(Load)
        assert load.available_memory > 0
        assert load.uptime > 0

    def test_a_job_that_is_kept_stays_after_its_program(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "echo done; exit 3", kept=600))
        driver.started(1)
        assert driver.said_until_pong() == []
        ended = driver.kill(1)
        assert (ended.reason, ended.status) == ("exited", 3 << 8)

    def test_a_job_is_kept_no_longer_than_was_asked(self, driver: Driver) -> None:
        driver.connect()
        assert driver.run(driver.spec(1, "exit 3", kept=1)).status == 3 << 8

    def test_the_walltime_of_a_kept_job_is_its_end(self, driver: Driver) -> None:
        driver.connect()
        ended = driver.run(driver.spec(1, "exit 3", kept=600, walltime=1))
        assert (ended.reason, ended.status) == ("exited", 3 << 8)

    def test_gpus(self, driver: Driver) -> None:
        driver.connect()
        driver.send(TellGpus())
        assert driver.expect(Gpus).number >= 0

    def test_suspend_and_resume(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "sleep 600"))
        driver.started(1)
        driver.send(Suspend((FIRST,)))
        suspended = driver.expect(Suspended)
        driver.send(Resume((FIRST,)))
        assert driver.expect(Resumed).at >= suspended.at
        driver.send(ChangeWalltime((FIRST,), 900))
        driver.send(Suspend((FIRST,)))
        driver.expect(Suspended)
        assert driver.kill(1).reason == "killed"

    def test_signals_reach_only_running_jobs(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "sleep 600"))
        driver.started(1)
        driver.send(Signal((FIRST, JobKey(2, 1)), 18))
        assert driver.said_until_pong() == []
        driver.kill(1)
        driver.start(driver.spec(2, "exit 0"))
        assert driver.ended(2).status == 0

    def test_clean_of_a_job_without_processes(self, driver: Driver) -> None:
        driver.connect()
        driver.send(Clean((FIRST, JobKey(2, 1))))
        assert driver.expect(Cleaned) == Cleaned(FIRST, 0, 0)
        assert driver.expect(Cleaned) == Cleaned(JobKey(2, 1), 0, 0)

    def test_clean_ends_a_program_that_runs(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "sleep 600"))
        driver.started(1)
        driver.send(Clean((FIRST,)))
        ended = driver.ended(1)
        # its supervisor may be ended first
        assert (ended.status, ended.reason) in ((9, "exited"), (None, "lost"))

    def test_the_fence_refuses_another_life_of_the_node(self, driver: Driver) -> None:
        ready = driver.connect()
        driver.start(driver.spec(1, "exit 0"), incarnation="elsewhere:1")
        assert driver.refused(1).reason == "INCARNATION"
        driver.start(driver.spec(1, "exit 0"), incarnation=ready.incarnation)
        assert driver.ended(1).status == 0

    def test_a_start_that_comes_too_late_is_refused(self, driver: Driver) -> None:
        ready = driver.connect()
        driver.start(driver.spec(1, "exit 0", start_deadline=ready.clock - 1))
        assert driver.refused(1).reason == "START_DEADLINE"
        driver.start(driver.spec(1, "exit 0", start_deadline=ready.clock + 3600))
        assert driver.ended(1).status == 0

    def test_a_new_channel_tells_all_that_the_node_knows(self, driver: Driver) -> None:
        first = driver.connect()
        driver.start(driver.spec(1, "sleep 600"), driver.spec(2, "exit 7"))
        driver.ended(2)
        driver.transport.disconnect(driver.node.name)
        assert not driver.transport.connected(driver.node.name)
        assert not driver.transport.send(driver.node.name, Ping(""))
        second = driver.connect()
        assert second.incarnation == first.incarnation
        assert {(report.key.job, report.state) for report in second.jobs} == {(1, "running"), (2, "ended")}
        driver.send(Ping("after the stories"))
        driver.expect(Pong)
        told = [report for _, report in driver.log[driver.log.index((driver.node.name, second)) :]]
        assert [report.key.job for report in told if isinstance(report, Started)] == [1]
        assert [report.status for report in told if isinstance(report, Ended)] == [7 << 8]
        assert driver.kill(1).reason == "killed"

    def test_connecting_again_replaces_the_channel_silently(self, driver: Driver) -> None:
        driver.connect()
        driver.start(driver.spec(1, "sleep 600"))
        driver.started(1)
        driver.connect()
        driver.send(Ping("new"))
        driver.expect(Pong)
        assert driver.kill(1).reason == "killed"
        assert not [report for _, report in driver.log if isinstance(report, ChannelLost)]

    def test_commands_sent_before_a_disconnect_arrive(self, driver: Driver) -> None:
        driver.connect()
        driver.run(driver.spec(1, "exit 0"))
        driver.send(Start((driver.spec(2, "exit 0"),)))
        driver.send(Forget((FIRST,)))
        driver.transport.disconnect(driver.node.name)

        def known() -> set[int]:
            return {report.key.job for report in driver.connect().jobs}

        until(lambda: known() == {2}, "job 1 forgotten and job 2 started")

    def test_a_node_that_cannot_be_reached_is_reported(self, driver: Driver) -> None:
        broken = self.unreachable(driver)
        driver.transport.connect(broken)
        lost = driver.expect(ChannelLost, name=broken.name)
        assert broken.name in lost.reason
        assert "\n" not in lost.reason
        assert not driver.transport.connected(broken.name)
        driver.connect()

    def unreachable(self, driver: Driver) -> NodeAddress:
        """A node that the transport cannot reach."""
        raise NotImplementedError

    def test_sending_to_a_node_never_connected(self, driver: Driver) -> None:
        assert not driver.transport.send("nowhere", Ping(""))
        assert not driver.transport.connected("nowhere")

    def test_ready_says_who_answers(self, driver: Driver) -> None:
        ready = driver.connect()
        assert isinstance(ready, Ready)
        assert ready.jobs == ()
        assert ready.boot_id
        assert ready.incarnation
