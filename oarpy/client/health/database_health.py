"""The database: its server, the schema, the modules that work on it, jobs that stay where they should not."""

from __future__ import annotations

import time
from collections.abc import Iterator

from oarpy.client import installation
from oarpy.client.health.finding import Finding
from oarpy.configuration import Configuration
from oarpy.model.billing import CORE, GPU
from oarpy.modules.loop.logging import job_ranges
from oarpy.modules.registry import enabled_modules
from oarpy.store.analytics import roles
from oarpy.store.database import Connection, database_dsn
from oarpy.store.notifications import strangers
from oarpy.store.platform import consumables, health, power

CLOCK_SECONDS = 1.0
"""The largest difference between two clocks that is no fault."""

_OLDEST_TRANSACTION = 1_500_000_000
_CONNECTIONS_PART = 0.9
_PATIENCE = 300.0
"""Seconds after which something that should be done within seconds is late."""

_DANGEROUS = {
    "fsync": "off: a power failure destroys the database",
    "full_page_writes": "off: a power failure may destroy the database",
    "autovacuum": "off: tables grow without end",
}


def server(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Yield the faults of the server, its settings and its clock."""
    before = time.time()
    state = health.server(connection)
    yield from clock("the database", min(state.clock - before, 0.0) + max(state.clock - time.time(), 0.0))
    for name, why in _DANGEROUS.items():
        if state.settings.get(name) == "off":
            yield Finding("database", f"{name} is {why}", f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()")
    if state.standby or state.settings.get("default_transaction_read_only") == "on":
        yield Finding("database", "it takes no changes", "database.url must name the primary, open to changes")
    most = int(state.settings["max_connections"])
    if state.connections > _CONNECTIONS_PART * most:
        what = f"{state.connections} of {most} connections are in use"
        yield Finding("database", what, "raise max_connections, or see in pg_stat_activity who holds them")
    if state.oldest > _OLDEST_TRANSACTION:
        what = f"rows {state.oldest} transactions old are not frozen"
        yield Finding("database", what, "VACUUM FREEZE, before the server takes no changes any more")
    if functions := roles.disturbing(connection):
        what = f"analysts may call {functions[0]} and {len(functions) - 1} others, which can hold up the server"
        yield Finding("database", what, "as PostgreSQL's superuser: oarpy db analyst NAME takes them away")


def clock(whose: str, ahead: float) -> Iterator[Finding]:
    """Yield a finding for a clock that is too far from ours; ``ahead`` in seconds, below 0: behind."""
    if abs(ahead) > CLOCK_SECONDS:
        where = "ahead of" if ahead > 0 else "behind"
        what = f"the clock of {whose} is {abs(ahead):.1f} seconds {where} that of this machine"
        yield Finding("clocks", what, "set it by NTP: timedatectl set-ntp true")


def schema(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Yield the findings of ``oarpy db check``."""
    for problem in installation.check(database_dsn(configuration)):
        what, _, todo = problem.partition(": run ")
        yield Finding("schema", what, f"run {todo}" if todo else "docs/guides/backup.md tells how to restore")


def modules(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Yield modules that do not run, or run and do nothing."""
    states = {name: health.module(connection, name) for name in enabled_modules(configuration)}
    for role, process in strangers(connection):
        what = f"role {role} holds a lock that is the server's (process {process} of PostgreSQL)"
        yield Finding("modules", what, f"SELECT pg_terminate_backend({process}); a superuser: oarpy db analyst {role}")
    if not any(state.led for state in states.values()):
        yield Finding("modules", "no module runs", "start oarpy server (with systemd: systemctl start oarpy-server)")
        return
    for name, state in states.items():
        # the automaton runs when it hears something, whatever its period
        allowed = max(_PATIENCE, 5 * getattr(configuration.modules, name, _PATIENCE))
        if not state.led:
            yield Finding("modules", f"no {name} runs", f"start oarpy server, or oarpy run {name}")
        elif name != "automaton" and state.silent is not None and state.silent > allowed:
            what = f"{name} has reported nothing for {state.silent:.0f} seconds"
            yield Finding("modules", what, "see the log of the server; end that process, it is started again")


def weights(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Yield weights of what nobody can use."""
    known = {CORE, GPU, *(row.name for row in consumables.consumables(connection))}
    for name in sorted(configuration.accounting.weights.keys() - known):
        what = f"accounting.weights weights '{name}', and no consumable has this name"
        yield Finding("accounting", what, f"correct the name, or make the consumable: oaradmin consumables add {name}")


def jobs(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Yield jobs that stay in a state through which they should only pass, and mails that do not leave."""
    settings, patience = configuration.jobs, configuration.nodes.lost_timeout + _PATIENCE
    scripts = settings.script_timeout + settings.server_script_timeout
    limits = {
        "toAckReservation": _PATIENCE,
        "toLaunch": patience,
        "Launching": patience + scripts,
        "Finishing": patience + scripts + configuration.nodes.kill_patience,
        "toError": _PATIENCE,
    }
    module = {"toAckReservation": "metascheduler"}
    for late in health.late_jobs(connection, limits, settings.kill_grace + patience):
        after = "after its walltime " if late.state == "Running" else ""
        what = f"{len(late.jobs)} jobs are {late.state} {after}for up to {late.seconds:.0f} seconds"
        todo = f"oarpy run {module.get(late.state, 'launcher')} --once; oardel ends one that stays"
        yield Finding("jobs", f"{what}: {job_ranges(late.jobs)}", todo)
    if configuration.mail.server and (waiting := health.late_notices(connection, _PATIENCE)):
        what = f"{waiting} mails and commands of --notify wait to be sent"
        yield Finding("jobs", what, f"does '{configuration.mail.server}' take mails? the log of the notifier says")


def energy(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Yield commands of ``[energy]`` that failed: nodes that they should put to sleep, or delete, go on to cost.

    Nothing runs them while energy saving is off.
    """
    for order in power.failed_orders(connection) if configuration.energy.active else ():
        whom = f"{len(order.nodes)} nodes ({', '.join(order.nodes[:3])})"
        what = f"energy.{order.asked}_command failed for {whom}, {order.tries} times: {' '.join(order.failure.split())}"
        yield Finding("energy", what, "make it succeed: it is tried again, within an hour")
