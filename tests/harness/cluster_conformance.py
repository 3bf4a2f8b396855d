"""What every cluster promises a broker, whatever is behind it. A test class for each kind derives from this one.

The programs of parts are ``sleep SECONDS``. Local jobs are those of a stage: they hold processors for long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any

import pytest

from oarpy.grid.calls.parts import GridPart, PartEvent, PartOfTransaction, PartRequest, PreparedPart
from oarpy.grid.calls.table import (
    Abort,
    Amend,
    Begin,
    CallRefused,
    Cancel,
    Cluster,
    Commit,
    Describe,
    Estimate,
    EstimateInTurn,
    Events,
    Evict,
    Evictable,
    Idle,
    Prepare,
    PrepareAll,
    Slots,
    Waiting,
)
from tests.harness.waiting import until

LONG = 3600.0
"""Seconds: a walltime, or a ttl, that no test waits for."""


def part_events(cluster: Cluster, after: int = 0) -> list[PartEvent]:
    """Return what happened to parts since an event."""
    return [event for event in cluster.ask(Events(after)) if isinstance(event, PartEvent)]


class ClusterStage(ABC):
    """A cluster of at least 4 processors that idle, and what a test does on it."""

    procs: int
    lapse = 4.0
    """Seconds: a ttl that tests wait for. What is to be seen before is seen within it, also on a busy machine."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._numbers = count(1)

    @abstractmethod
    def occupy(self, procs: int) -> str:
        """Run a local job that may give way; return its name once it runs."""

    @abstractmethod
    def vacate(self, local: str) -> None:
        """End a local job."""

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until something is true."""
        return until(condition, what)

    def unique(self, word: str) -> str:
        """Return a name for a key, a part or a transaction that nobody had."""
        return f"{word}-{next(self._numbers)}"

    def request(self, procs: int, walltime: float = LONG) -> PartRequest:
        """Return what a part asks for."""
        return PartRequest("ann", f"/core={procs}", procs, walltime)

    # the calls, with new keys

    def prepared(self, kind: Any = "queued", procs: int = 1, *, ttl: float = LONG, **more: Any) -> tuple[str, str]:
        """Prepare a part; return its name and its transaction."""
        name, transaction = more.pop("name", self.unique("part")), more.pop("transaction", self.unique("transaction"))
        walltime = more.pop("walltime", LONG)
        part = GridPart(name, kind, self.request(procs, walltime), program=more.pop("program", "sleep 1000"), **more)
        self.cluster.ask(Prepare(transaction, part, ttl, key=self.unique("key")))
        return name, transaction

    def commit(self, transaction: str, begin: float | None = None) -> None:
        """Commit a transaction."""
        self.cluster.ask(Commit(transaction, begin, key=self.unique("key")))

    def abort(self, transaction: str) -> None:
        """Abort a transaction."""
        self.cluster.ask(Abort(transaction, key=self.unique("key")))

    def queued(self, procs: int = 1, **more: Any) -> str:
        """Let a job join the queue; return the name of its part."""
        name, transaction = self.prepared("queued", procs, **more)
        self.commit(transaction)
        return name

    def reserved(self, procs: int, begin: float, walltime: float = LONG, program: str = "sleep 1000") -> str:
        """Reserve processors; return the name of the part."""
        name, transaction = self.prepared("reserved", procs, begin=begin, walltime=walltime, program=program)
        self.commit(transaction)
        return name

    def has_room(self, procs: int, begin: float, walltime: float) -> bool:
        """Tell whether processors could be reserved."""
        asked = Idle(self.request(1, walltime), begin)
        before = self.cluster.ask(asked)
        try:
            _, transaction = self.prepared("reserved", procs, begin=begin, walltime=walltime)
        except CallRefused:
            return False
        self.abort(transaction)
        self.wait(lambda: self.cluster.ask(asked) == before, "the end of what was tried")
        return True

    def amended(self, name: str, procs: int, begin: float, walltime: float = LONG, **more: Any) -> tuple[str, str]:
        """Prepare another place for a reservation; return the name of the new part and its transaction."""
        new, transaction = self.unique("part"), more.pop("transaction", self.unique("transaction"))
        part = GridPart(new, "reserved", self.request(procs, walltime), program="sleep 1000", begin=begin)
        key, ttl = self.unique("key"), more.pop("ttl", LONG)
        answers = [self.cluster.ask(Amend(transaction, name, part, ttl, key=key)) for _ in range(2)]
        assert answers[0] == answers[1]
        return new, transaction

    def begin(self, name: str) -> PreparedPart:
        """Let a part begin."""
        return self.cluster.ask(Begin(name, key=self.unique("key")))

    def begun(self, name: str) -> bool:
        """Tell whether a part runs now that it was told to begin, on all its hosts."""
        with suppress(CallRefused):
            return len(self.begin(name).hosts) == self.procs
        return False

    def freeze(self, name: str, *, ttl: float = LONG) -> str:
        """Freeze a part; return the transaction."""
        return self.prepared("withdrawn", name=name, ttl=ttl)[1]

    def cancel(self, name: str) -> bool:
        """Cancel a part."""
        return self.cluster.ask(Cancel(name, "the test is over", key=self.unique("key")))

    def events(self, name: str) -> list[PartEvent]:
        """Return the events of a part."""
        return [event for event in part_events(self.cluster) if event.part == name]

    def event(self, name: str, *kinds: str) -> PartEvent:
        """Wait for an event of a part."""
        found: list[PartEvent] = self.wait(
            lambda: [one for one in self.events(name) if one.kind in kinds], f"{name}: {kinds}"
        )
        assert len(found) == 1
        return found[0]

    def waiting(self) -> list[str]:
        """Return the parts that wait."""
        return [part.name for part in self.cluster.ask(Waiting())]

    def idle(self) -> int:
        """Return how many processors idle."""
        return self.cluster.ask(Idle(self.request(1)))

    def free(self, begin: float, *instants: float, without: Sequence[str] = ()) -> list[int]:
        """Return how many processors are free at instants, by what is asked once, from ``begin`` on."""
        told = self.cluster.ask(Slots(self.request(1), begin, begin + 36_000, without))
        assert [slot.begin for slot in told] == sorted(slot.begin for slot in told)
        assert told[0].begin == begin
        return [[slot.procs for slot in told if slot.begin <= instant][-1] for instant in instants]

    def busy(self) -> str:
        """Let a local job hold all processors; return its name."""
        return self.occupy(self.procs)


class ClusterConformance:
    """Tests of a ``stage`` fixture; whatever runs there at the end is the fixture's to clean."""

    def test_a_cluster_says_what_it_is(self, stage: ClusterStage) -> None:
        described = stage.cluster.ask(Describe())
        assert described.procs == stage.procs == stage.idle()
        assert described.speed > 0
        assert stage.cluster.ask(Describe()).clock >= described.clock > 0
        assert stage.cluster.name

    def test_what_is_asked_twice_is_done_once(self, stage: ClusterStage) -> None:
        stage.busy()
        part = GridPart(stage.unique("part"), "queued", stage.request(1), program="sleep 1")
        first, again = (stage.cluster.ask(Prepare("its-transaction", part, LONG, key="a-key")) for _ in range(2))
        assert first == again
        for _ in range(2):
            stage.cluster.ask(Commit("its-transaction", key="another-key"))
            assert [(known.name, known.job) for known in stage.cluster.ask(Waiting())] == [(part.name, first.job)]
        for _ in range(2):
            stage.cluster.ask(Cancel(part.name, key="a-third-key"))
            stage.wait(lambda: stage.waiting() == [], "the end of the part")

    def test_a_name_stands_for_one_part(self, stage: ClusterStage) -> None:
        name, _ = stage.prepared()
        with pytest.raises(CallRefused, match=name):
            stage.prepared(name=name)

    def test_what_is_prepared_cannot_start_and_runs_once_committed(self, stage: ClusterStage) -> None:
        name, transaction = stage.prepared("queued", 2, program="sleep 1")
        stage.occupy(1)
        assert stage.events(name) == []
        assert name not in stage.waiting()
        stage.commit(transaction)
        started = stage.event(name, "started")
        assert len(started.hosts) == 2
        ended = stage.event(name, "ended")
        assert ended.status == 0
        assert ended.at >= started.at + 1
        stage.commit(transaction)
        assert [event.kind for event in stage.events(name)] == ["started", "ended"]

    def test_idle_processors_are_idle_until_the_end_of_what_begins_later(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "reserved")
        date = stage.cluster.ask(Describe()).clock + 600
        _, transaction = stage.prepared("reserved", 2, ttl=60, begin=date)
        short = stage.request(1, walltime=60)
        assert stage.cluster.ask(Idle(short)) == stage.procs
        assert stage.cluster.ask(Idle(short, date)) == stage.procs - 2
        stage.abort(transaction)

    def test_free_processors_are_told_as_steps_over_time(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "foreseen")
        now = float(int(stage.cluster.ask(Describe()).clock) + 1)
        date = now + 600
        name = stage.reserved(2, date, 300)
        ways = (now + 60, date, date + 299, date + 600)
        assert stage.free(now, *ways) == [stage.procs, stage.procs - 2, stage.procs - 2, stage.procs]
        assert stage.free(now, *ways, without=[name, "unknown"]) == [stage.procs] * 4

    def test_what_nobody_commits_lapses(self, stage: ClusterStage) -> None:
        begin = stage.cluster.ask(Describe()).clock + 600
        able = stage.cluster.ask(Describe()).abilities.claim
        parts = [stage.prepared("queued", 2, ttl=stage.lapse)]
        if able:
            parts.append(stage.prepared("claim", 2, ttl=stage.lapse, begin=begin))
        assert stage.idle() == stage.procs - 2 * able
        for name, transaction in parts:
            assert stage.event(name, "lapsed").reason
            with pytest.raises(CallRefused, match=transaction):
                stage.commit(transaction)
        assert stage.idle() == stage.procs

    def test_an_abort_may_come_again_and_first(self, stage: ClusterStage) -> None:
        name, transaction = stage.prepared()
        for _ in range(2):
            stage.abort(transaction)
        with pytest.raises(CallRefused, match=transaction):
            stage.commit(transaction)
        early = stage.unique("transaction")
        stage.abort(early)
        for refused in (transaction, early):
            with pytest.raises(CallRefused, match=refused):
                stage.prepared(transaction=refused)
        assert stage.waiting() == []
        assert [event for event in stage.events(name) if event.kind == "started"] == []

    def test_a_commit_may_come_again_and_stays(self, stage: ClusterStage) -> None:
        stage.busy()
        name, transaction = stage.prepared()
        for _ in range(2):
            stage.commit(transaction)
        with pytest.raises(CallRefused, match=transaction):
            stage.abort(transaction)
        with pytest.raises(CallRefused, match=transaction):
            stage.prepared(transaction=transaction)
        assert stage.waiting() == [name]
        with pytest.raises(CallRefused):
            stage.commit(stage.unique("transaction"))

    def test_a_transaction_may_have_several_parts(self, stage: ClusterStage) -> None:
        stage.busy()
        transaction = stage.unique("transaction")
        names = [stage.prepared(transaction=transaction)[0] for _ in range(2)]
        stage.commit(transaction)
        assert stage.waiting() == names
        frozen = stage.unique("transaction")
        for name in names:
            stage.prepared("withdrawn", name=name, transaction=frozen)
        stage.commit(frozen)
        assert stage.waiting() == []

    def test_many_parts_are_prepared_by_one_call_and_a_refused_one_refuses_itself(self, stage: ClusterStage) -> None:
        stage.busy()
        taken, other = stage.prepared()
        over, mine = stage.unique("transaction"), stage.unique("transaction")
        stage.abort(over)
        first, late, last = (stage.unique("part") for _ in range(3))
        wanted = [
            PartOfTransaction(transaction, GridPart(name, "queued", stage.request(1), program="sleep 1000"))
            for transaction, name in ((mine, first), (over, late), (mine, taken), (mine, last))
        ]
        key = stage.unique("key")
        answers, again = (stage.cluster.ask(PrepareAll(wanted, LONG, key=key)) for _ in range(2))
        jobs = [one.job if isinstance(one, PreparedPart) else "" for one in answers]
        assert [bool(job) for job in jobs] == [True, False, False, True]
        assert jobs == [one.job if isinstance(one, PreparedPart) else "" for one in again]
        assert (over in str(answers[1]), taken in str(answers[2])) == (True, True)
        stage.commit(mine)
        assert [(known.name, known.job) for known in stage.cluster.ask(Waiting())] == [
            (first, jobs[0]),
            (last, jobs[3]),
        ]
        stage.abort(other)

    @pytest.mark.parametrize("how", ["abort", "lapse"])
    def test_a_frozen_part_goes_on_in_its_old_rank(self, stage: ClusterStage, how: str) -> None:
        local = stage.busy()
        first = stage.queued(stage.procs, program="sleep 1")
        second = stage.queued(stage.procs, program="sleep 1" if how == "lapse" else "sleep 1000")
        transaction = stage.freeze(first, ttl=stage.lapse if how == "lapse" else LONG)
        if how == "abort":
            stage.vacate(local)
            stage.event(second, "started")
            assert stage.events(first) == []
            third = stage.queued(stage.procs, program="sleep 1")
            stage.abort(transaction)
            stage.cancel(second)
        else:
            third = second
            ends = stage.cluster.ask(Estimate([first, second]))
            assert ends[0] <= ends[1] < inf, ends
            self._wait_for_the_lapse(stage, transaction)
            stage.vacate(local)
        assert stage.event(first, "started").at <= stage.event(third, "started").at

    def _wait_for_the_lapse(self, stage: ClusterStage, transaction: str) -> None:
        end = stage.cluster.ask(Describe()).clock + stage.lapse
        stage.wait(lambda: stage.cluster.ask(Describe()).clock > end, "the ttl")
        with pytest.raises(CallRefused, match=transaction):
            stage.commit(transaction)

    def test_a_withdrawn_part_is_gone(self, stage: ClusterStage) -> None:
        local = stage.busy()
        first, second = stage.queued(), stage.queued()
        transaction = stage.freeze(first)
        for _ in range(2):
            stage.commit(transaction)
        assert stage.waiting() == [second]
        stage.vacate(local)
        stage.event(second, "started")
        assert "started" not in [event.kind for event in stage.events(first)]
        with pytest.raises(CallRefused, match=second):
            stage.freeze(second)

    def test_a_claim_holds_at_once_and_begins_at_its_date(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "claim")
        begin = stage.cluster.ask(Describe()).clock + 3
        name, transaction = stage.prepared("claim", 3, begin=begin, program="sleep 1")
        assert stage.idle() == stage.procs - 3
        with pytest.raises(CallRefused):
            stage.prepared("claim", stage.procs - 2, begin=begin)
        stage.commit(transaction, begin)
        started = stage.event(name, "started")
        assert int(begin) <= started.at, (begin, started)
        assert len(started.hosts) == 3
        assert stage.event(name, "ended").status == 0
        stage.wait(lambda: stage.idle() == stage.procs, "idle processors")

    def test_a_claim_that_is_aborted_gives_its_processors_back(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "claim")
        begin = stage.cluster.ask(Describe()).clock + 600
        _, transaction = stage.prepared("claim", stage.procs, begin=begin)
        assert stage.idle() == 0
        stage.abort(transaction)
        stage.wait(lambda: stage.idle() == stage.procs, "idle processors")

    def test_a_reservation_begins_at_its_date(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "reserved")
        begin = stage.cluster.ask(Describe()).clock + 5
        name, transaction = stage.prepared("reserved", stage.procs, begin=begin, program="sleep 1")
        with pytest.raises(CallRefused):
            stage.prepared("reserved", 1, begin=begin)
        stage.commit(transaction, begin)
        assert int(begin) <= stage.event(name, "started").at

    def test_a_reservation_with_patience_begins_when_it_is_told(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "amended")
        begin = float(int(stage.cluster.ask(Describe()).clock) + 3)
        name, transaction = stage.prepared("reserved", stage.procs, begin=begin, program="sleep 1", patience=600)
        stage.commit(transaction, begin)
        assert not stage.has_room(1, begin, 60)
        stage.wait(lambda: stage.begun(name), "its date")
        assert stage.begun(name), "it may be told again"
        assert stage.event(name, "started").at >= begin
        assert stage.event(name, "ended").status == 0
        with pytest.raises(CallRefused):
            stage.begin(name)

    def test_a_reservation_that_nobody_tells_to_begin_ends(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "amended")
        begin = float(int(stage.cluster.ask(Describe()).clock) + 3)
        name, transaction = stage.prepared("reserved", stage.procs, begin=begin, patience=1)
        stage.commit(transaction, begin)
        assert "did not let it begin" in stage.event(name, "failed").reason
        assert [event.kind for event in stage.events(name)] == ["failed"]
        stage.wait(lambda: stage.idle() == stage.procs, "idle processors")

    def test_a_reservation_gets_another_place_as_if_its_old_one_were_away(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "amended")
        begin = float(int(stage.cluster.ask(Describe()).clock) + 600)
        old = stage.reserved(stage.procs, begin, 1200)
        new, transaction = stage.amended(old, stage.procs - 1, begin + 600, 1200)
        assert not stage.has_room(1, begin, 300), "the old place is kept"
        assert not stage.has_room(2, begin + 1300, 300), "the new one is held"
        assert stage.has_room(1, begin + 1300, 300)
        with pytest.raises(CallRefused, match=old):
            stage.amended(old, 1, begin + 600, 1200)
        for _ in range(2):
            stage.commit(transaction)
        assert stage.has_room(stage.procs, begin, 300)
        assert not stage.has_room(2, begin + 700, 300)
        assert not stage.has_room(2, begin + 1300, 300)
        assert stage.events(old) == stage.events(new) == []
        with pytest.raises(CallRefused, match=transaction):
            stage.abort(transaction)
        again, transaction = stage.amended(new, 1, begin, 300)
        stage.commit(transaction)
        assert stage.has_room(stage.procs, begin + 700, 300)
        assert stage.cancel(again)

    @pytest.mark.parametrize("how", ["abort", "lapse"])
    def test_a_reservation_that_is_not_amended_after_all_keeps_its_place(self, stage: ClusterStage, how: str) -> None:
        self._skip_unless_able(stage, "amended")
        begin = float(int(stage.cluster.ask(Describe()).clock) + 600)
        old = stage.reserved(stage.procs, begin, 300)
        new, transaction = stage.amended(old, stage.procs, begin + 60, 600, ttl=stage.lapse if how == "lapse" else LONG)
        if how == "abort":
            stage.abort(transaction)
        else:
            assert stage.event(new, "lapsed").reason
        with pytest.raises(CallRefused, match=transaction):
            stage.commit(transaction)
        assert not stage.has_room(1, begin, 60)
        assert stage.has_room(stage.procs, begin + 330, 300)
        assert stage.events(old) == []
        stage.commit(stage.amended(old, 1, begin, 300)[1])

    @pytest.mark.parametrize("how", ["abort", "lapse", "commit"])
    def test_a_withdrawn_reservation_keeps_its_place_until_that_is_committed(
        self, stage: ClusterStage, how: str
    ) -> None:
        self._skip_unless_able(stage, "amended")
        begin = float(int(stage.cluster.ask(Describe()).clock) + 600)
        name = stage.reserved(stage.procs, begin, 300)
        transaction = stage.freeze(name, ttl=stage.lapse if how == "lapse" else LONG)
        assert not stage.has_room(1, begin, 60)
        if how == "commit":
            stage.commit(transaction)
            stage.wait(lambda: stage.has_room(stage.procs, begin, 60), "its place is free")
        else:
            if how == "abort":
                stage.abort(transaction)
            else:
                self._wait_for_the_lapse(stage, transaction)
            assert not stage.has_room(1, begin, 60)
            stage.commit(stage.freeze(name))
        assert stage.events(name) == []

    def test_what_cannot_be_amended_stays(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "amended")
        begin = float(int(stage.cluster.ask(Describe()).clock) + 600)
        with pytest.raises(CallRefused, match="unknown"):
            stage.amended("unknown", 1, begin)
        stage.busy()
        with pytest.raises(CallRefused, match="is not reserved"):
            stage.amended(stage.queued(), 1, begin)
        old, beside = stage.reserved(2, begin + LONG, 60), stage.reserved(stage.procs - 2, begin + LONG, 60)
        with pytest.raises(CallRefused):
            stage.amended(old, 3, begin + LONG, 60)
        assert not stage.has_room(1, begin + LONG, 60)
        assert stage.events(old) == stage.events(beside) == []

    def test_a_reservation_that_began_is_not_amended_any_more(self, stage: ClusterStage) -> None:
        self._skip_unless_able(stage, "amended")
        begin = stage.cluster.ask(Describe()).clock + 5
        old = stage.reserved(stage.procs, begin, 60, "sleep 2")
        new, transaction = stage.amended(old, stage.procs, begin + 600, 60)
        stage.event(old, "started")
        with pytest.raises(CallRefused, match=old):
            stage.commit(transaction)
        stage.abort(transaction)
        assert stage.event(old, "ended").status == 0
        with pytest.raises(CallRefused, match=old):
            stage.amended(old, 1, begin + 600)
        assert stage.events(new) == []

    def test_estimates_change_nothing(self, stage: ClusterStage) -> None:
        stage.busy()
        waiting = stage.queued(stage.procs, walltime=600)
        held, transaction = stage.prepared(procs=stage.procs, walltime=60)
        cluster, asked = stage.cluster, stage.request(stage.procs, 120)
        before = (stage.idle(), cluster.ask(Waiting()), stage.events(waiting), stage.events(held))
        now = cluster.ask(Describe()).clock
        ends = stage.wait(lambda: self._known(cluster.ask(Estimate([waiting, asked, asked, held]))), "estimates")
        assert now + 600 <= ends[0] < ends[1] < inf
        assert ends[1] == pytest.approx(ends[2], abs=5)
        assert ends[0] < ends[3] < inf
        assert cluster.ask(Estimate([stage.request(stage.procs + 1), asked]))[0] == inf
        in_turn = cluster.ask(EstimateInTurn(asked, 3))
        assert in_turn[0] == pytest.approx(ends[1], abs=30)
        assert in_turn[1] - in_turn[0] == pytest.approx(120, abs=5) == in_turn[2] - in_turn[1]
        assert cluster.ask(Estimate([asked], without=[waiting]))[0] < ends[1]
        assert cluster.ask(Estimate([asked], joined=[asked]))[0] > ends[1]
        assert before == (stage.idle(), cluster.ask(Waiting()), stage.events(waiting), stage.events(held))
        stage.abort(transaction)
        assert cluster.ask(Estimate([held]))[0] <= cluster.ask(Describe()).clock + 1

    def _known(self, ends: Any) -> Any:
        """Return the estimates, once the cluster has planned."""
        return ends if ends[0] < ends[1] else None

    def test_events_are_told_after_a_number(self, stage: ClusterStage) -> None:
        first = stage.queued(program="sleep 1")
        stage.event(first, "ended")
        second = stage.queued(program="sleep 1")
        stage.event(second, "ended")
        events = [event for event in part_events(stage.cluster) if event.part in (first, second)]
        assert [event.kind for event in events] == ["started", "ended"] * 2
        numbers = [event.number for event in events]
        assert numbers == sorted(set(numbers))
        for place, number in enumerate(numbers):
            assert stage.cluster.ask(Events(number)) == events[place + 1 :]

    def test_a_part_can_be_cancelled_whatever_it_does(self, stage: ClusterStage) -> None:
        abilities = stage.cluster.ask(Describe()).abilities
        over, running = stage.queued(program="sleep 0"), stage.queued(program="sleep 1000")
        stage.event(over, "ended")
        stage.event(running, "started")
        parts = [over, running, stage.prepared()[0]]
        if abilities.claim:
            parts.append(stage.prepared("claim", 2, begin=stage.cluster.ask(Describe()).clock + 600)[0])
        waiting, frozen = stage.queued(stage.procs), stage.queued(stage.procs)
        if abilities.withdraw:
            stage.freeze(frozen)
        for name in (*parts, waiting, frozen) * 2:
            assert stage.cancel(name) is True
        stage.wait(lambda: stage.idle() == stage.procs, "idle processors")
        assert stage.waiting() == []
        for name in (*parts, waiting, frozen):
            stage.event(name, "ended", "failed")
        assert stage.cancel(stage.unique("unknown")) is False

    def test_all_that_is_needed_gives_way_or_nobody(self, stage: ClusterStage) -> None:
        stage.occupy(1)
        stage.occupy(2)
        cluster, asked = stage.cluster, stage.request(2)
        if not cluster.ask(Describe()).abilities.evict:
            for call in (Evictable(asked), Evict("t", asked, 1, key="k")):
                with suppress(CallRefused):
                    assert not cluster.ask(call)
            return
        evictable = cluster.ask(Evictable(asked))
        assert [job.procs for job in evictable] == [2, 1]
        assert not cluster.ask(Evict(stage.unique("transaction"), asked, 4, key=stage.unique("key")))
        assert list(cluster.ask(Evictable(asked))) == list(evictable)
        key, transaction = stage.unique("key"), stage.unique("transaction")
        gone = [cluster.ask(Evict(transaction, asked, 2, key=key)) for _ in range(2)]
        assert gone == [[evictable[0].job]] * 2
        stage.wait(lambda: [job.procs for job in cluster.ask(Evictable(asked))] == [1], "the victim's end")

    def _skip_unless_able(self, stage: ClusterStage, kind: str) -> None:
        abilities = stage.cluster.ask(Describe()).abilities
        able = {
            "claim": abilities.claim,
            "reserved": abilities.reserve,
            "amended": abilities.amend,
            "foreseen": abilities.foresee,
        }
        if not able.get(kind, True):
            pytest.skip(f"this kind of cluster has no parts of kind {kind!r}")
