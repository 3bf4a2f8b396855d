"""``oarnodesetting``: states, drain, maintenance windows and properties of resources, and adding single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oarpy.client.platform import consumables, maintenance
from oarpy.client.platform.maintenance import Period, PlannedWindow
from oarpy.client.platform.property_values import parse_assignments
from oarpy.client.platform.resource_selection import find
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.model.states import ResourceState
from oarpy.store import notifications
from oarpy.store.jobs import kill_requests
from oarpy.store.platform import nodes, properties, reboots, resources
from oarpy.store.platform.resources import PropertyValue, ResourceRow

_KILLING = frozenset({ResourceState.ABSENT, ResourceState.DEAD})
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of resources: ids, node sets, a condition."""

    resource_ids: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    condition: str | None = None

    def __bool__(self) -> bool:
        return bool(self.resource_ids or self.hosts or self.condition is not None)


@dataclass(frozen=True, slots=True)
class Changes:
    """The wanted changes of resources; None leaves a thing as it is. ``maintenance`` on is Absent, off is Alive.

    ``window`` is when the nodes are to get no jobs. ``reason`` says why nodes go away: only with changes that take them
    away.
    """

    state: str | None = None
    maintenance: bool | None = None
    drain: bool | None = None
    assignments: tuple[str, ...] = ()
    reason: str | None = None
    window: Period | None = None


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """The resources changed or added, the jobs that are to be killed because of it, and the window that was planned."""

    resource_ids: tuple[int, ...]
    killed_jobs: tuple[int, ...] = ()
    planned: PlannedWindow | None = None


def parse_state(text: str) -> ResourceState:
    """Return the state called ``text``, in any case; raise :class:`UsageError`."""
    for state in ResourceState:
        if state.value.lower() == text.lower():
            return state
    raise UsageError(f"'{text[:40]}' is not a state of resources", hint="Alive, Absent, Suspected or Dead")


def parse_switch(text: str, option: str) -> bool:
    """Return the truth of ``on`` or ``off``; raise :class:`UsageError` naming the option."""
    if text.lower() not in ("on", "off"):
        raise UsageError(f"'{text[:40]}' is no value of {option}", hint="on or off")
    return text.lower() == "on"


def change(session: Session, selection: Selection, changes: Changes) -> SettingOutcome:
    """Apply ``changes`` to the selected resources. Jobs on resources that become Absent or Dead are to be killed."""
    session.require_admin("change nodes")
    if not selection:
        raise UsageError("no resource given", hint="-h HOST, -r ID or --sql CONDITION")
    state = _state(changes)
    if state is None and changes.drain is None and changes.window is None and not changes.assignments:
        raise UsageError("nothing to change", hint="-s STATE, -m on|off|START..END, -d on|off or -p NAME=VALUE")
    reason = _reason(changes, state)
    with session.connection.transaction():
        resources.lock(session.connection)
        rows = find(session, selection.resource_ids, selection.hosts, selection.condition)
        if not rows:
            raise NotFound("no resource meets the condition", hint="oarnodes lists them")
        ids = tuple(row.resource_id for row in rows)
        amounts, assignments = consumables.split(session, changes.assignments)
        values = _values(session, replace(changes, assignments=assignments))
        _refuse_moving_held(session, values, ids)
        if values:
            resources.set_properties(session.connection, ids, values)
        consumables.give(session, amounts, ids)
        killed = () if state is None else _set_state(session, rows, state)
        if _takes_away(changes, state):
            _explain(session, rows, reason)
        planned = _plan(session, rows, changes.window, reason or "") if changes.window is not None else None
    return SettingOutcome(ids, killed, planned)


def reboot(session: Session, selection: Selection, reason: str | None) -> tuple[str, ...]:
    """Drain the nodes of the selected resources, and have them rebooted when their jobs have ended; return them."""
    session.require_admin("reboot nodes")
    if not session.configuration.energy.reboot_command:
        raise UsageError("this site has no command that reboots nodes", hint="energy.reboot_command names it")
    if not selection:
        raise UsageError("no resource given", hint="-h HOST, -r ID or --sql CONDITION")
    words = _reason(Changes(drain=True, reason=reason), None)
    with session.connection.transaction():
        resources.lock(session.connection)
        names = _nodes(find(session, selection.resource_ids, selection.hosts, selection.condition))
        if not names:
            raise NotFound("no resource of a node meets the condition", hint="oarnodes lists them")
        for name, state in reboots.out_of_service(session.connection, names).items():
            raise OarpyError(
                f"node '{name}' is {state}", hint="only nodes in service are rebooted; nothing was changed"
            )
        said = f"reboot asked by {session.user}" + (f": {words}" if words else "")
        reboots.ask(session.connection, names, said)
        notifications.tell(session.connection, "energy")
    return tuple(names)


def _takes_away(changes: Changes, state: ResourceState | None) -> bool:
    return bool(changes.drain) or state not in (None, ResourceState.ALIVE)


def _reason(changes: Changes, state: ResourceState | None) -> str | None:
    """Return why nodes go away, on one line; None when it is not said."""
    if changes.reason is None:
        return None
    if not _takes_away(changes, state) and changes.window is None:
        raise UsageError(
            "--reason goes with what takes a node away",
            hint="-d on, -m on or START..END, or -s with another state than Alive",
        )
    reason = " ".join(changes.reason.split())
    if not reason or len(reason) > _LONGEST_REASON:
        raise UsageError(f"--reason has {len(reason)} characters", hint=f"1 to {_LONGEST_REASON}")
    return reason


def _explain(session: Session, rows: Sequence[ResourceRow], reason: str | None) -> None:
    names = _nodes(rows)
    if reason is not None and not names:
        raise UsageError("--reason is kept with nodes, and these resources have none")
    nodes.explain_absence(session.connection, names, reason, session.user)


def _plan(session: Session, rows: Sequence[ResourceRow], window: Period, reason: str) -> PlannedWindow:
    names = _nodes(rows)
    if not names:
        raise UsageError("maintenance is of nodes, and these resources have none")
    return maintenance.plan(session, names, window, reason)


def _nodes(rows: Sequence[ResourceRow]) -> list[str]:
    return sorted({row.network_address for row in rows if row.network_address is not None})


def _state(changes: Changes) -> ResourceState | None:
    if changes.state is not None and changes.maintenance is not None:
        raise UsageError("-s and -m exclude each other", hint="-m on is Absent, -m off is Alive")
    if changes.maintenance is not None:
        return ResourceState.ABSENT if changes.maintenance else ResourceState.ALIVE
    return None if changes.state is None else parse_state(changes.state)


def _values(session: Session, changes: Changes) -> dict[str, PropertyValue]:
    known = {row.name: row for row in properties.properties(session.connection)}
    values = parse_assignments(changes.assignments, known)
    if changes.drain is not None:
        if "drain" in values:
            raise UsageError("-d and -p drain exclude each other")
        values["drain"] = changes.drain
    if changes.maintenance:
        # the scheduler wakes no node that is being repaired
        values["available_upto"] = None
    return values


def _refuse_moving_held(session: Session, values: Mapping[str, PropertyValue], ids: Sequence[int]) -> None:
    """Refuse to move resources to another node, or type, under the jobs that hold them."""
    moved = {"network_address", "type"} & set(values)
    held = resources.holders(session.connection, ids) if moved else {}
    for resource, jobs in held.items():
        raise OarpyError(
            f"resource {resource} is held by job {jobs[0]}, its {min(moved)} cannot change", hint="nothing was changed"
        )


def _set_state(session: Session, rows: Sequence[ResourceRow], state: ResourceState) -> tuple[int, ...]:
    ids = [row.resource_id for row in rows]
    resources.set_state(session.connection, ids, state)
    names = _nodes(rows)
    shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "") or "a resource"
    resources.log_change(session.connection, names, f"set {state} by {session.user}")
    if state not in _KILLING:
        return ()
    return kill_requests.ask_on_resources(session.connection, ids, session.user, f"{shown} set {state}")


def _names(node: str, kinds: Mapping[str, str]) -> dict[str, PropertyValue]:
    """Return the properties that name a node. That of the host may have been deleted, or be a number here."""
    return {"network_address": node, **({"host": node} if kinds.get("host") == "text" else {})}


def add(session: Session, hosts: Sequence[str], changes: Changes) -> SettingOutcome:
    """Add one resource on each of ``hosts`` (one without a node when there is none) with the values given."""
    session.require_admin("add resources")
    if changes.reason is not None or changes.window is not None:
        raise UsageError(f"{'--reason' if changes.reason is not None else '-m START..END'} does not go with -a")
    state = _state(changes) or ResourceState.ALIVE
    from oarpy.model.resource_pattern import node_names

    names = node_names(*hosts)
    with session.connection.transaction():
        resources.lock(session.connection)
        amounts, assignments = consumables.split(session, changes.assignments)
        values = _values(session, replace(changes, assignments=assignments))
        if not names and values.get("type", "default") == "default" and values.get("network_address") is None:
            raise UsageError("a resource of type 'default' needs a node", hint="-h HOST, or -p type=TYPE")
        kinds = {row.name: row.kind for row in properties.properties(session.connection)}
        given: dict[str, PropertyValue] = {**values, "state": state.value}
        rows = [{**_names(name, kinds), **given} for name in names] or [given]
        used = {name: kinds[name] for name in rows[0]}
        added = resources.add(session.connection, used, rows)
        consumables.give(session, amounts, added)
        return SettingOutcome(added)
