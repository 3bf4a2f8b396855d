"""The load of running jobs' GPUs: nodes are asked now and then; users of idle GPUs get a message, or their jobs end."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict

from oarpy.configuration import JobSettings
from oarpy.model.durations import format_duration
from oarpy.model.setting_values import IdleGpus, read_idle_gpus
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.store import events
from oarpy.store.analytics import gpu_uses
from oarpy.store.analytics.gpu_uses import GpuHolder, LookedAt
from oarpy.store.events import NewEvent
from oarpy.store.jobs.execution import Agenda
from oarpy.wire.messages import ChannelLost, GpuUse, MeasuredGpu, MeasureGpus

UNMEASURED = "GPUS_NOT_MEASURED"
_REACH = 3
"""The most periods that a look stands for: the time after more periods without a look counts as not measured."""

_NUMBERS = range(1 << 31)
"""Numbers of GPUs that a node can measure; other GPUs are not measured, and doctor names them."""


class GpuUses(Part):
    """Asks each node every ``jobs.measure_gpus`` seconds for the GPUs that jobs hold there; writes the answers.

    An answer that does not come before the next question counts as not known. A node that leaves some questions in a
    row unanswered gets an event: its driver may hang.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._period = settings.measure_gpus
        self._idle = read_idle_gpus(settings.idle_gpu)
        self._ask_at = -math.inf
        self._holders: list[GpuHolder] = []
        """The GPUs of the last question."""
        self._asked: set[str] = set()
        """Nodes that have not answered yet; reports of other nodes are ignored."""
        self._unanswered: Counter[str] = Counter()
        """By node, how many questions in a row it has not answered."""
        self._told: dict[str, dict[int, MeasuredGpu]] = {}

    def hears(self) -> Hears:
        """The method for each report that is taken here."""
        return {GpuUse: self._note, ChannelLost: self._lose}

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Write the answers once all nodes have answered, or when it is time to ask again; then ask."""
        due = self._period > 0 and time.monotonic() >= self._ask_at
        if self._told and (due or not self._asked):
            looks = self._looks()
            with turn.connection.transaction():
                gpu_uses.record(turn.connection, looks, self._period * _REACH)
                _act_on_idle(turn, self._idle, [look.job for look in looks])
            self._told = {}
        if due:
            self._ask_at = time.monotonic() + self._period
            self._name_silent(turn)
            self._ask(turn)

    def wait(self) -> float:
        """Return when it is to ask again, if there are jobs with GPUs; others are found by rounds that come anyhow."""
        return max(0.0, self._ask_at - time.monotonic()) if self._holders else math.inf

    def _name_silent(self, turn: Round) -> None:
        """Log an event for each node that has left some questions in a row unanswered now."""
        self._unanswered.update(self._asked)
        silent = sorted(node for node in self._asked if self._unanswered[node] == _REACH)
        if silent:
            text = f"the use of its GPUs was asked for {_REACH} times without an answer: their driver may hang"
            with turn.connection.transaction():
                events.log(turn.connection, [NewEvent(UNMEASURED, text, hosts=(node,)) for node in silent])

    def _ask(self, turn: Round) -> None:
        self._holders = gpu_uses.holders(turn.connection)
        wanted: defaultdict[str, set[int]] = defaultdict(set)
        for holder in self._holders:
            wanted[holder.node].update(number for number in holder.numbers if number in _NUMBERS)
        orders = {node: MeasureGpus(tuple(sorted(numbers))) for node, numbers in wanted.items()}
        self._asked = {node for node, order in orders.items() if turn.channels.send(node, order)}

    def _looks(self) -> list[LookedAt]:
        """Return a look for each job with an answer about its GPUs."""
        by_job: defaultdict[int, list[GpuHolder]] = defaultdict(list)
        for holder in self._holders:
            by_job[holder.job].append(holder)
        looks = []
        for job, held in by_job.items():
            seen = [
                gpu
                for holder in held
                for number, gpu in self._told.get(holder.node, {}).items()
                if number in holder.numbers
            ]
            if seen:
                looks.append(_look(job, sum(len(holder.numbers) for holder in held), seen))
        return looks

    def _note(self, node: str, report: GpuUse) -> None:
        if node in self._asked:
            self._asked.remove(node)
            del self._unanswered[node]
            self._told[node] = {gpu.number: gpu for gpu in report.gpus}

    def _lose(self, node: str, _report: ChannelLost) -> None:
        self._asked.discard(node)
        del self._unanswered[node]


def _look(job: int, gpus: int, seen: list[MeasuredGpu]) -> LookedAt:
    busy = [gpu.busy / 100 for gpu in seen if gpu.busy is not None]
    used = [(gpu.memory, gpu.memory_total) for gpu in seen if gpu.memory is not None]
    most, total = max(used, key=lambda use: use[0], default=(None, None))
    memory = sum(memory for memory, _ in used) if used else None
    return LookedAt(job, gpus, len(busy), math.fsum(busy), memory, most, total)


def _act_on_idle(turn: Round, idle: IdleGpus, jobs: list[int]) -> None:
    if idle.warn is not None:
        more = "" if idle.end is None else f"; after {format_duration(idle.end)} it is ended"
        text = f"its GPUs have been idle for {format_duration(idle.warn)}{more}"
        gpu_uses.warn(turn.connection, jobs, idle.warn, text)
    if idle.end is not None:
        gpu_uses.end_idle(turn.connection, jobs, idle.end, f"its GPUs were idle for {format_duration(idle.end)}")
