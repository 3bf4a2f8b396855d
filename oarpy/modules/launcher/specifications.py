"""From rows to the specification of a job for a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from oarpy.configuration import JobSettings
from oarpy.model.billing import GPU_SHARE
from oarpy.model.file_names import file_name
from oarpy.model.job_types import INTERACTIVE, ON_A_HOST, read_types
from oarpy.model.node_types import ONE_TYPE
from oarpy.processes.dealing import Share, map_lines
from oarpy.store.jobs.execution import Launch
from oarpy.wire.jobs import JobSpec


class JobHosts:
    """Where the programs of jobs run, by the settings of the site: hosts for types of jobs, else their nodes.

    ``launcher_host`` is where launchers of applications run, which is no place of a job.
    """

    def __init__(self, settings: JobSettings, launcher_host: str = "") -> None:
        self._hosts = {"deploy": settings.deploy_host, "cosystem": settings.cosystem_host}
        self._launcher_host = launcher_host

    @property
    def elsewhere(self) -> dict[str, str]:
        """The host by the spelling of each type of jobs that has one."""
        return {spelling: host for spelling, kind in ON_A_HOST.items() if (host := self._hosts[kind])}

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that are configured for types of jobs, and for launchers."""
        return tuple(sorted({host for host in (*self._hosts.values(), self._launcher_host) if host}))

    def of(self, types: Iterable[str], nodes: Iterable[str] | None) -> tuple[str, ...]:
        """Return where a job of these types with these nodes has something, its program on the first of them."""
        meant = read_types(types)
        if meant.runs_nothing:
            return ()
        host = self._hosts.get(meant.host, "")
        return (host,) if host else tuple(nodes or ())


DEFAULT_TYPE = "default"
_MPS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


def specification(
    launch: Launch, environment: Mapping[str, str], settings: JobSettings, node: str, *, confined: bool
) -> JobSpec:
    """Return the specification of a job for one of its nodes; ``confined``: it keeps to its processors there."""
    spec = launch.spec
    mine = _on(launch, node)
    hosts, its_map = tuple(_hosts(launch.held)), process_map(launch)
    return spec.replace(
        stdout=_named(spec.stdout, spec),
        stderr=_named(spec.stderr, spec),
        environment=dict(environment),
        nodes=hosts,
        resources=tuple(map(_properties_line, launch.held)),
        login_shell=settings.login_shell,
        kill_grace=settings.kill_grace,
        allow_root=spec.user == "root",
        variables=_amounts(launch) | _place_in_bag(launch),
        memory=_memory(launch, node),
        processors=_numbers(mine, "cpuset") if confined else (),
        grid_hosts=() if launch.part_hosts is None else launch.part_hosts or hosts,
        keep=settings.interactive_patience if launch.kind == INTERACTIVE else 0.0,
        kept=read_types(launch.types).kept,
        gpus=_gpus(launch, mine),
        process_map=its_map,
        grid_map=() if launch.part_map is None else (*its_map, *launch.part_map),
    )


def own_gpus(launch: Launch, node: str) -> tuple[int, ...] | None:
    """Return the numbers of a job's GPUs on a node, from its resources there (property ``gpudevice``).

    None where its resources have no such number: then the job may see all GPUs. Where the site has that property and
    GPUs go to the jobs that ask for them, other jobs get an empty tuple.
    """
    return _gpus(launch, _on(launch, node))


def _on(launch: Launch, node: str) -> list[Mapping[str, object]]:
    return [resource for resource in launch.held if resource["network_address"] == node]


def _gpus(launch: Launch, mine: list[Mapping[str, object]]) -> tuple[int, ...] | None:
    if launch.without_gpu and any("gpudevice" in resource for resource in mine):
        return ()
    return _numbers(mine, "gpudevice") or None


def _amounts(launch: Launch) -> dict[str, str]:
    """Return the variables with a job's amount of each consumable on every block: ``OAR_AMOUNT_MEMORY`` in bytes.

    A share of a GPU is told to NVIDIA's MPS, too.
    """
    values = {f"OAR_AMOUNT_{amount.consumable.upper()}": str(amount.amount) for amount in launch.amounts}
    parts = [amount.amount for amount in launch.amounts if amount.consumable == GPU_SHARE and amount.amount <= 100]
    return values | ({_MPS: str(parts[0])} if parts else {})


def process_map(launch: Launch) -> tuple[str, ...]:
    """Return which processes each core has, hosts and cores in the order of the node file."""
    if launch.mapped is None:
        return ()
    cores = [resource for resource in launch.held if resource["type"] == DEFAULT_TYPE]
    kind_of = launch.mapped.property
    hosts = [(str(core["network_address"]), str(core.get(kind_of)) if kind_of else ONE_TYPE) for core in cores]
    shares = {kind: [Share(*share) for share in its] for kind, its in launch.mapped.assigned.items()}
    return tuple(map_lines(shares, hosts, in_stages=launch.mapped.model != "async"))


def _place_in_bag(launch: Launch) -> dict[str, str]:
    """Return the variables that give a task its place in its bag and the number of tasks there."""
    if launch.bag_tasks is None:
        return {}
    spec = launch.spec
    place = {
        "OAR_BAG_ID": str(spec.array_id),
        "OAR_BAG_TASK": str(spec.array_index),
        "OAR_BAG_TASKS": str(launch.bag_tasks),
    }
    return place if launch.grid_task is None else place | {"OAR_GRID_TASK": str(launch.grid_task)}


MEMORY = "memory"
"""The consumable, in bytes, that limits the memory of a job on a node."""


def _memory(launch: Launch, node: str) -> int:
    """Add up the job's amounts of memory on blocks that are on ``node`` alone; 0 when there are none."""
    nodes: dict[tuple[str, str], set[object]] = {}
    for resource in launch.held:
        for level in {amount.level for amount in launch.amounts}:
            nodes.setdefault((level, str(resource.get(level))), set()).add(resource["network_address"])
    return sum(
        amount.amount
        for amount in launch.amounts
        if amount.consumable == MEMORY and amount.unit == "bytes" and nodes.get((amount.level, amount.block)) == {node}
    )


def _numbers(resources: Iterable[Mapping[str, object]], name: str) -> tuple[int, ...]:
    return tuple(sorted({value for resource in resources if isinstance(value := resource.get(name), int)}))


def _hosts(resources: Iterable[Mapping[str, object]]) -> list[str]:
    """Return one line per resource of type default: a host is named once for each of its cores."""
    return [str(resource["network_address"]) for resource in resources if resource["type"] == DEFAULT_TYPE]


def _properties_line(resource: Mapping[str, object]) -> str:
    """Write a resource as OAR does: ``key = 'value' , key = 'value'``.

    >>> _properties_line({"core": 3, "host": "n1", "mem": None, "deploy": False})
    "core = '3' , deploy = 'NO' , host = 'n1'"
    """
    return _line(tuple(resource.items()), tuple(map(type, resource.values())))


@lru_cache(maxsize=4096)
def _line(properties: tuple[tuple[str, object], ...], _kinds: tuple[type, ...]) -> str:
    """Return the line of a resource, remembered for the next job. The kinds tell 1 from True, which are equal."""
    return " , ".join(f"{name} = '{_text(value)}'" for name, value in sorted(properties) if value is not None)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value).replace("\n", " ")


def _named(pattern: str, spec: JobSpec) -> str:
    return file_name(pattern, job=spec.job, name=spec.name, array=spec.array_id, index=spec.array_index)
