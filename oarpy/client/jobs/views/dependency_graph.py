"""``oarstat --graph``: jobs and their dependencies, drawn as trees of text or written for Graphviz.

::

    12 R train
    ├─ ok 13 W test
    │  └─ 15 W report (also after 14)
    └─ 14 W plot
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oarpy.client.jobs.selection import ids_in_brief
from oarpy.client.rendering import JsonValue, one_line
from oarpy.model.states import JobState
from oarpy.store.jobs.job_listing import JobDependency, ListedJob

FORMS = ("text", "dot")

_BRANCHES = ("├─ ", "└─ ", "│  ", "   ")
_ASCII_BRANCHES = ("|- ", "`- ", "|  ", "   ")


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Jobs of one array in one state that wait for the same jobs and are waited for by the same."""

    jobs: tuple[ListedJob, ...]

    def label(self) -> str:
        """Return ids, letter of the state and name."""
        first = self.jobs[0]
        several = f" ({len(self.jobs)} jobs)" if len(self.jobs) > 1 else ""
        ids = ids_in_brief([job.job_id for job in self.jobs])
        return one_line(f"{ids} {JobState(first.state).letter} {first.name or first.user}{several}")


class DependencyGraph:
    """Jobs, clustered, and the relations between the clusters."""

    def __init__(self, jobs: Iterable[ListedJob], relations: Iterable[JobDependency]) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.relations = [relation for relation in relations if {relation.job, relation.required} <= self.jobs.keys()]
        clusters = self._clustered()
        of_job = {job.job_id: place for place, cluster in enumerate(clusters) for job in cluster.jobs}
        self._clusters = clusters
        self._after: dict[int, dict[int, str]] = defaultdict(dict)
        self._before: dict[int, list[int]] = defaultdict(list)
        for relation in self.relations:
            early, late = of_job[relation.required], of_job[relation.job]
            if late not in self._after[early]:
                self._after[early][late] = relation.outcome
                self._before[late].append(early)

    def _clustered(self) -> list[_Cluster]:
        required: Mapping[int, set[tuple[int, str]]] = defaultdict(set)
        waited: Mapping[int, set[tuple[int, str]]] = defaultdict(set)
        for relation in self.relations:
            required[relation.job].add((relation.required, relation.outcome))
            waited[relation.required].add((relation.job, relation.outcome))
        groups: dict[object, list[ListedJob]] = defaultdict(list)
        for number, job in sorted(self.jobs.items()):
            groups[job.array_id, job.state, frozenset(required[number]), frozenset(waited[number])].append(job)
        return [_Cluster(tuple(jobs)) for jobs in groups.values()]

    def text(self, *, unicode: bool) -> str:
        """Return a tree for each cluster that waits for none; a cluster is drawn once, at the first it waits for."""
        branches = _BRANCHES if unicode else _ASCII_BRANCHES
        lines: list[str] = []
        drawn: set[int] = set()
        # the jobs left after the roots wait in a circle, which only changes by hand can make
        for place in (
            *(root for root in range(len(self._clusters)) if not self._before[root]),
            *range(len(self._clusters)),
        ):
            if place not in drawn:
                self._draw(place, lines, drawn, branches)
        return "".join(f"{line}\n" for line in lines)

    def _draw(self, root: int, lines: list[str], drawn: set[int], branches: Sequence[str]) -> None:
        fork, last, pass_by, nothing = branches
        waiting: list[tuple[int, str, str, str, int | None]] = [(root, "", "", "", None)]
        while waiting:
            place, outcome, lead, below, parent = waiting.pop()
            label = f"{outcome} {self._clusters[place].label()}".strip()
            if place in drawn:
                lines.append(f"{lead}{label} (above)")
                continue
            drawn.add(place)
            others = [self._first_id(anterior) for anterior in self._before[place] if anterior != parent]
            lines.append(f"{lead}{label}" + (f" (also after {ids_in_brief(others)})" if others else ""))
            later = list(self._after[place].items())
            for order, (child, wanted) in reversed(list(enumerate(later))):
                at_end = order == len(later) - 1
                waiting.append(
                    (child, wanted, below + (last if at_end else fork), below + (nothing if at_end else pass_by), place)
                )

    def _first_id(self, place: int) -> int:
        return self._clusters[place].jobs[0].job_id

    def dot(self) -> str:
        """Return the graph in the language of Graphviz, with arrows from anterior jobs to their dependants."""
        nodes = [
            f"  {self._first_id(place)} [label={_quoted(cluster.label())}];"
            for place, cluster in enumerate(self._clusters)
        ]
        arrows = [
            f"  {self._first_id(early)} -> {self._first_id(late)}" + (f" [label={_quoted(wanted)}];" if wanted else ";")
            for early, later in self._after.items()
            for late, wanted in later.items()
        ]
        return "\n".join(["digraph jobs {", *nodes, *arrows, "}"]) + "\n"

    def document(self) -> dict[str, JsonValue]:
        """Return jobs and dependencies as a JSON object."""
        return {
            "jobs": {
                str(job.job_id): {"state": job.state, "name": job.name or None, "owner": job.user}
                for job in self.jobs.values()
            },
            "dependencies": [
                {"job_id": relation.job, "required": relation.required, "outcome": relation.outcome or None}
                for relation in self.relations
            ],
        }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
