"""Which rank runs on which cores of a job: in blocks, in the order of the node file, on the least used cores."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oarpy.frontend.ranks.options import Wish


class NoRoom(Exception):
    """The ranks do not fit on the cores of the job."""


class Core:
    """A core of the job: its node, and its processor there if that has a number."""

    def __init__(self, host: str, processor: int | None = None) -> None:
        self.host = host
        self.processor = processor


class Place:
    """The place of a rank: its node, its cores as positions in the job's list, and its number among those there."""

    def __init__(self, rank: int, host: str, cores: Sequence[int], local: int) -> None:
        self.rank = rank
        self.host = host
        self.cores = cores
        self.local = local


def read_cores(lines: Sequence[str]) -> list[Core]:
    """Return the cores in a file of properties of resources, in its order.

    >>> (core,) = read_cores(["cpuset = '3' , network_address = 'n1' , type = 'default'"])
    >>> (core.host, core.processor)
    ('n1', 3)
    """
    cores = []
    for line in lines:
        entries = dict(entry.split(" = ", 1) for entry in line.strip().split(" , ") if " = " in entry)
        if entries.get("type", "'default'") == "'default'" and "network_address" in entries:
            number = entries.get("cpuset", "''")[1:-1]
            cores.append(Core(entries["network_address"][1:-1], int(number) if number.isdigit() else None))
    return cores


def place(cores: Sequence[Core], wish: Wish, uses: Mapping[int, int]) -> list[Place]:
    """Return the place of each rank; ``uses`` counts the ranks of other steps on each core. Raises :class:`NoRoom`.

    >>> from oarpy.frontend.ranks.options import Wish
    >>> job = [Core("n1"), Core("n1"), Core("n2"), Core("n2")]
    >>> [(found.host, found.cores, found.local) for found in place(job, Wish(3), {})]
    [('n1', [0], 0), ('n1', [1], 1), ('n2', [2], 0)]
    >>> [found.host for found in place(job, Wish(2, cores=2), {})]
    ['n1', 'n2']
    """
    groups = _groups(cores, wish, uses)
    if not groups:
        most = max((len(its) for its in _by_host(cores).values()), default=0)
        raise NoRoom(f"--cpus-per-task {wish.cores}: no node of the job has more than {most} cores of it")
    again = wish.overcommit and not wish.on_node
    if wish.ranks > len(groups) and not again:
        size = "" if wish.cores == 1 else f" of {wish.cores} cores"
        raise NoRoom(f"-n {wish.ranks}: the job has room for {len(groups)} processes{size} (fewer, or --overcommit)")
    used = [max(uses.get(core, 0) for core in group) for group in groups]
    chosen = sorted(sorted(range(len(groups)), key=used.__getitem__)[: wish.ranks])
    places: list[Place] = []
    local: dict[str, int] = {}
    for rank in range(wish.ranks):
        group = groups[chosen[rank % len(chosen)]]
        host = cores[group[0]].host
        places.append(Place(rank, host, group, local.get(host, 0)))
        local[host] = local.get(host, 0) + 1
    return places


def _by_host(cores: Sequence[Core]) -> dict[str, list[int]]:
    hosts: dict[str, list[int]] = {}
    for number, core in enumerate(cores):
        hosts.setdefault(core.host, []).append(number)
    return hosts


def _groups(cores: Sequence[Core], wish: Wish, uses: Mapping[int, int]) -> list[list[int]]:
    """Return the cores for one rank each, node by node; on each node those that are used least come first.

    To overcommit with a number of ranks on each node is to use the cores of a node again up to that number.
    """
    groups: list[list[int]] = []
    for numbers in _by_host(cores).values():
        freest = sorted(numbers, key=lambda core: uses.get(core, 0))
        its = [freest[first : first + wish.cores] for first in range(0, len(freest), wish.cores)]
        its = its[: len(freest) // wish.cores]
        if wish.on_node and wish.overcommit and its:
            its = [its[number % len(its)] for number in range(wish.on_node)]
        groups += its[: wish.on_node] if wish.on_node else its
    return groups
