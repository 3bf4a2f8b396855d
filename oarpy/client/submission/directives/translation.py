"""The requests in lines of another scheduler, gathered line by line, and the options of ours that they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from oarpy.client.submission.options import Options
from oarpy.model.durations import format_duration
from oarpy.model.job_types import SINGLETON


class NotTranslated(Exception):
    """An option that has no counterpart here; the text says why, or which words to write."""


class Indispensable(NotTranslated):
    """Such an option that says how much a job needs, or where: without it, it would be another job."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of this site, read when they matter: consumables, properties and types of resources."""

    consumables: Callable[[], Collection[str]]
    properties: Callable[[], Collection[str]]
    resource_types: Callable[[], Collection[str]]


@dataclass(slots=True)
class Translation:
    """A request that is gathered from options.

    ``tasks`` of ``cores`` each are on ``nodes`` nodes (0: not said), ``per_node`` of them on one; ``chunks`` are
    complete parts of a request. ``memory`` is an amount of each node. ``walltime`` is in seconds. ``hosts`` are all to
    be used, ``excluded`` hosts are not. ``gpus`` counts the GPUs of the job, ``gpus_per_node`` and ``gpus_per_task``
    those of each node and task. ``job_name`` is the name that the job has whatever its lines say ("": none). A
    ``singleton`` runs when no other job of its user and name does; without a name it has that of its ``script``.
    """

    user: str
    names: Names
    script: str
    job_name: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    nodes: int = 0
    tasks: int = 0
    per_node: int = 0
    cores: int = 0
    whole_nodes: bool = False
    hosts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    gpus: int = 0
    gpus_per_node: int = 0
    gpus_per_task: int = 0
    singleton: bool = False
    chunks: list[str] = field(default_factory=list)
    memory: str = ""
    walltime: int = 0
    mail_to: str = ""
    mail_tags: tuple[str, ...] | None = None
    joined: bool = False
    """Both outputs go into one file."""

    def add(self, name: str, *values: str) -> None:
        """Add values of an option that may be repeated."""
        self.lists[name] = (*self.lists.get(name, ()), *values)

    def take_memory(self, amount: str) -> None:
        """Note the memory of each node. Raises :class:`NotTranslated` where the site does not share it out."""
        if "memory" not in self.names.consumables():
            raise NotTranslated("this site has no consumable 'memory'")
        self.memory = amount

    def require_gpus(self) -> None:
        """Raise :class:`NotTranslated` where resources have no property for graphics processors."""
        if "gpu" not in self.names.properties():
            raise NotTranslated("no resource here has a gpu (oarproperty --list shows what they have)")

    def options(self) -> Options:
        """Return the options that all of this makes."""
        texts, lists = dict(self.texts), dict(self.lists)
        if request := self._request():
            lists["alternatives"] = (request,)
        if self.whole_nodes and (self.gpus or self.gpus_per_node or self.gpus_per_task):
            lists["types"] = (*lists.get("types", ()), "exclusive")
        if self.singleton:
            name = self.job_name or texts.get("name", self.script)
            lists["types"] = (*lists.get("types", ()), SINGLETON + _word(name)[:63])
        if self.mail_tags:
            texts["notify"] = f"[{','.join(self.mail_tags)}]mail:{self.mail_to or self.user}"
        if self.joined:
            texts["stderr"] = texts.setdefault("stdout", f"{_word(texts.get('name', 'OAR'))}.o%jobid%")
        return Options(texts=texts, lists=lists, flags=frozenset(self.flags))

    def _request(self) -> str:
        """Return the words after ``-l``, "" for an empty request."""
        groups = "+".join(self.chunks) or self._group()
        parts = [groups or ("/nodes=1" if self.memory else "")]
        parts += [f"memory={self.memory}"] if self.memory else []
        parts += [f"walltime={format_duration(self.walltime)}"] if self.walltime else []
        return ",".join(filter(None, parts))

    def _group(self) -> str:
        """Return the groups that the nodes, tasks, cores and graphics processors of the job make."""
        cores = self.cores or 1
        somewhere = self.hosts or self.excluded or self.gpus_per_node
        nodes = self.nodes or (-(-(self.tasks or 1) // self.per_node) if self.per_node else 0)
        nodes = max(nodes, len(self.hosts), 1 if self.whole_nodes or somewhere else 0)
        if nodes:
            per_node = self.per_node or -(-self.tasks // nodes) or 1
            levels = self._levels(nodes, per_node, per_node * cores)
            groups = [(condition, count) for condition, count in self._places(nodes) if count]
            return "+".join(f"{condition}/nodes={count}{levels}" for condition, count in groups)
        if gpus := self.gpus or self.gpus_per_task * (self.tasks or 1):
            cores_level = f"/core={-(-(self.tasks or 1) * cores // gpus)}" if self.tasks or self.cores else ""
            return f"/gpu={gpus}{cores_level}"
        if self.tasks > 1:
            return f"/core={self.tasks * cores}"
        return f"/nodes=1/core={cores}" if self.tasks or self.cores else ""

    def _levels(self, nodes: int, tasks: int, cores: int) -> str:
        """Return the levels inside each of ``nodes`` nodes, on which ``tasks`` tasks and ``cores`` cores are wanted.

        A graphics processor comes with all its cores if no cores are requested.
        """
        if gpus := self.gpus_per_node or self.gpus_per_task * tasks or -(-self.gpus // nodes):
            by_core = (self.tasks or self.per_node or self.cores) and not self.whole_nodes
            return f"/gpu={gpus}" + (f"/core={-(-cores // gpus)}" if by_core else "")
        return "" if self.whole_nodes else f"/core={cores}"

    def _places(self, nodes: int) -> Sequence[tuple[str, int]]:
        """Return conditions in braces, each with the number of nodes that meet it: the named nodes, and all others."""
        others = (*self.excluded, *self.hosts)
        return (
            (f"{{network_address IN ({_quoted(self.hosts)})}}", len(self.hosts)),
            (f"{{network_address NOT IN ({_quoted(others)})}}" if others else "", nodes - len(self.hosts)),
        )


def _word(name: str) -> str:
    """Return a name with ``_`` for what cannot stand in names of files and types."""
    return re.sub(r"[^a-zA-Z0-9_.-]", "_", name)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def whole_number(text: str) -> int:
    """Return a number above 0. Raises :class:`NotTranslated`."""
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not int(text):
        raise NotTranslated(f"'{text[:40]}' is no number above 0")
    return int(text)


def host_names(text: str) -> tuple[str, ...]:
    """Return the hosts of ``n[1-3],m7``, each once. Raises :class:`NotTranslated`."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    if not re.fullmatch(r"[A-Za-z0-9.,_\[\]-]+", text, re.ASCII):
        raise NotTranslated(f"'{text[:40]}' is no list of nodes, such as n[1-3],n7")
    try:
        names = tuple(NodeSet(text))
    except NodeSetException:
        raise NotTranslated(f"'{text[:40]}' is no list of nodes, such as n[1-3],n7") from None
    return names


def array_size(text: str) -> tuple[str, str]:
    """Return ``--array`` of an array given as ``1-10%2``, and its lost parts. Raises :class:`NotTranslated`."""
    match = re.fullmatch(r"(\d{1,9})-(\d{1,9})(%\d+)?", text, re.ASCII)
    if match is None or int(match[2]) < int(match[1]):
        raise NotTranslated("write --array N: indexes are 1 to N")
    size = int(match[2]) - int(match[1]) + 1
    lost = [f"OAR_ARRAY_INDEX is 1 to {size}"] if match[1] != "1" else []
    return f"{size}{match[3] or ''}", "; ".join(lost)


def file_pattern(text: str, words: dict[str, str]) -> str:
    """Return the name of a file with our words for ``%j`` and the like. Raises :class:`NotTranslated`."""

    def ours(match: re.Match[str]) -> str:
        if match[0] not in words:
            raise NotTranslated(f"no word for '{match[0]}' in names of files")
        return words[match[0]]

    return re.sub(r"%\d*[A-Za-z%]|\$\{?\w+\}?|\^array_index\^", ours, text)
