"""Parts of brokers on this cluster, their transactions, and how these end.

::

    prepare: Prepared --commit--> Committed --withdrawn: prepare--> Frozen --commit--> Aborted, its job deleted
                 '--abort, lapse--> Aborted        ^------abort, lapse------'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from oarpy.store.database import Connection

_OPEN = """
    INSERT INTO door_transactions (broker, transaction) SELECT %s, unnest(%s::text[]) ON CONFLICT DO NOTHING
"""
_STATES = """
    SELECT transaction, state FROM door_transactions WHERE broker = %s AND transaction = ANY(%s)
    ORDER BY transaction FOR UPDATE
"""
_STATE = "SELECT state FROM door_transactions WHERE (broker, transaction) = (%s, %s) FOR UPDATE"
_SETTLE = "UPDATE door_transactions SET state = %s WHERE (broker, transaction) = (%s, %s) AND state <> %s"

_COLUMNS = """
    p.part, p.job_id, p.kind, p.state, p.transaction, extract(epoch FROM p.begin_at)::float8, p.held_at IS NOT NULL,
    j.state, j.reservation_state, j.message, extract(epoch FROM j.submitted_at)::float8, p.instead_of
"""
_PART = f"""
    SELECT {_COLUMNS} FROM door_parts p JOIN jobs j USING (job_id) WHERE (p.broker, p.part) = (%s, %s) FOR UPDATE OF p
"""  # noqa: S608 - columns of this file
_NAMED = f"""
    SELECT {_COLUMNS} FROM door_parts p JOIN jobs j USING (job_id) WHERE p.broker = %s AND p.part = ANY(%s)
"""  # noqa: S608
_OF_TRANSACTION = f"""
    SELECT {_COLUMNS} FROM door_parts p JOIN jobs j USING (job_id)
    WHERE (p.broker, p.transaction) = (%s, %s) AND p.lapses_at IS NOT NULL ORDER BY p.job_id FOR UPDATE OF p
"""  # noqa: S608
# Parts that the broker's user, or an admin, holds wait too.
_WAITING = f"""
    SELECT {_COLUMNS} FROM door_parts p JOIN jobs j USING (job_id)
    WHERE p.broker = %s AND p.kind = 'queued' AND p.state IN ('Committed', 'Frozen')
      AND j.state IN ('Waiting', 'Hold')
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = p.job_id AND k.state <> 'done')
    ORDER BY p.job_id
"""  # noqa: S608

_ADD = """
    INSERT INTO door_parts (broker, part, job_id, kind, transaction, begin_at, walltime, held_at, lapses_at, instead_of)
    SELECT %(broker)s, part, job, kind, transaction, to_timestamp(begin_at), walltime * interval '1 second',
           CASE WHEN held THEN clock_timestamp() END, clock_timestamp() + %(ttl)s * interval '1 second',
           instead_of
    FROM unnest(%(parts)s::text[], %(jobs)s::bigint[], %(kinds)s::text[], %(transactions)s::text[],
                %(begins)s::float8[], %(walltimes)s::float8[], %(held)s::boolean[], %(instead_of)s::bigint[])
        AS s(part, job, kind, transaction, begin_at, walltime, held, instead_of)
"""
_ADD_BAG = """
    INSERT INTO door_parts (broker, part, job_id, kind, transaction, walltime, lapses_at, tasks, offer)
    VALUES (%(broker)s, %(name)s, %(job)s, %(kind)s, %(transaction)s, %(walltime)s * interval '1 second',
            clock_timestamp() + %(ttl)s * interval '1 second', %(tasks)s, %(offer)s)
"""
_WERE_PREPARED = "SELECT FROM door_parts WHERE (broker, transaction) = (%s, %s) AND state = 'Aborted' LIMIT 1"
_TAKEN_UP = "SELECT FROM door_parts WHERE (broker, offer) = (%s, %s)"
_PROMISE = "SELECT extract(epoch FROM promise)::float8 FROM bags WHERE bag_id = %s"
_TASKS = "SELECT job_id FROM jobs WHERE array_id = %s AND 'bag' = ANY(types) AND is_live(state) ORDER BY job_id"
_COMPLETIONS = """
    UPDATE door_parts p SET completion = to_timestamp(c.completion), completion_version = c.version
    FROM unnest(%s::text[], %s::float8[], %s::int[]) AS c(part, completion, version)
    WHERE (p.broker, p.part) = (%s, c.part) AND p.kind = 'bag' AND p.completion_version < c.version
"""
_FREEZE = """
    UPDATE door_parts SET state = 'Frozen', transaction = %(transaction)s,
        lapses_at = clock_timestamp() + %(ttl)s * interval '1 second'
    WHERE (broker, part) = (%(broker)s, %(part)s) AND state = 'Committed'
"""
_OF_JOB = "SELECT broker, part FROM door_parts WHERE job_id = %s"
_HOSTS_OF_ALL = "SELECT hosts FROM door_parts WHERE job_id = %s"
_UNDECIDED_JOBS = "SELECT job_id, broker FROM door_parts WHERE lapses_at IS NOT NULL"
_HOLD = "UPDATE jobs SET state = 'Hold' WHERE job_id = %s AND state = 'Waiting' AND reservation_state IS NULL"
# A pass that starts one at this moment does not do so any more, or has done so first.
_STOP = "UPDATE jobs SET state = 'Hold' WHERE job_id = ANY(%s) AND state = 'Waiting'"
_RELEASE = "UPDATE jobs SET state = 'Waiting' WHERE job_id = ANY(%s) AND state = 'Hold'"
# The new part alone has from now on the resources that it shared with the old part.
_TAKE_PLACES = """
    WITH given AS (
        DELETE FROM reserved_resources r USING door_parts p
        WHERE (p.broker, p.transaction) = (%(broker)s, %(transaction)s) AND p.state = 'Prepared'
          AND r.job_id = p.instead_of
        RETURNING p.job_id, r.exclusive
    )
    SELECT job_id, bool_and(exclusive) FROM given GROUP BY job_id
"""
_ALONE = "UPDATE reserved_resources SET exclusive = true WHERE job_id = ANY(%s)"
_IS_HELD = """
    UPDATE door_parts SET held_at = clock_timestamp()
    WHERE (broker, part) = (%s, %s) AND state = 'Prepared' AND held_at IS NULL
"""
_REFUSED = """
    UPDATE door_parts SET state = 'Aborted', lapses_at = NULL, offer = ''
    WHERE (broker, part) = (%s, %s) AND state = 'Prepared'
"""
_COMMIT = """
    UPDATE door_parts SET state = CASE state WHEN 'Frozen' THEN 'Aborted' ELSE 'Committed' END, lapses_at = NULL,
        begin_at = CASE WHEN begin_at IS NOT NULL THEN coalesce(to_timestamp(%(begin)s), begin_at) END,
        hosts = %(hosts)s
    WHERE (broker, transaction) = (%(broker)s, %(transaction)s) AND lapses_at IS NOT NULL
"""
_NOTE_HOSTS = "UPDATE door_parts SET hosts = %s, process_map = %s WHERE (broker, part) = (%s, %s)"
# The hosts of resources that the job holds, or will hold: a host for each resource of type default.
_HOSTS = """
    SELECT r.network_address FROM resources r JOIN (
        SELECT resource_id FROM assigned_resources WHERE job_id = %(job)s AND upper_inf(during)
        UNION SELECT resource_id FROM reserved_resources WHERE job_id = %(job)s) AS held USING (resource_id)
    WHERE r.type = 'default' AND r.network_address IS NOT NULL ORDER BY r.network_address, r.resource_id
"""

# An undone transaction: jobs that it made end, jobs that it froze go on in their rank. A job that is over by itself
# gets no message of a lapse. An offer that was taken up can be taken up again.
_UNDO = """
    WITH undone AS (
        SELECT p.broker, p.part, p.job_id, p.kind, p.state, p.held_at
        FROM door_parts p JOIN unnest(%(brokers)s::text[], %(transactions)s::text[]) AS t(broker, transaction)
            USING (broker, transaction)
        WHERE p.lapses_at IS NOT NULL
    ), made AS (
        UPDATE door_parts p SET state = CASE p.state WHEN 'Frozen' THEN 'Committed' ELSE 'Aborted' END,
            lapses_at = NULL, offer = CASE p.state WHEN 'Frozen' THEN p.offer ELSE '' END
        FROM undone u WHERE (p.broker, p.part) = (u.broker, u.part)
    ), killed AS (
        INSERT INTO kill_requests (job_id, requested_by, reason)
        SELECT j.job_id, 'door', %(reason)s FROM undone u JOIN jobs j USING (job_id)
        WHERE u.state = 'Prepared' AND u.kind <> 'bag' AND is_live(j.state)
        UNION ALL
        SELECT j.job_id, 'door', %(reason)s FROM undone u JOIN jobs j ON j.array_id = u.job_id
        WHERE u.state = 'Prepared' AND u.kind = 'bag' AND 'bag' = ANY(j.types) AND is_live(j.state)
        ON CONFLICT (job_id) DO NOTHING
        RETURNING job_id
    ), told AS (
        INSERT INTO door_events (broker, part, kind, job_id, reason)
        SELECT u.broker, u.part, 'lapsed', u.job_id, %(reason)s
        FROM undone u JOIN jobs j USING (job_id)
        WHERE %(lapsed)s AND u.state = 'Prepared' AND u.held_at IS NOT NULL AND is_live(j.state)
    )
    UPDATE jobs j SET state = 'Waiting' FROM undone u
    WHERE j.job_id = u.job_id AND u.state = 'Frozen' AND u.kind = 'queued' AND j.state = 'Hold'
    RETURNING j.job_id
"""
_ABORT_ALL = """
    UPDATE door_transactions t SET state = 'Aborted'
    FROM unnest(%(brokers)s::text[], %(transactions)s::text[]) AS u(broker, transaction)
    WHERE (t.broker, t.transaction) = (u.broker, u.transaction) AND t.state = 'Prepared'
"""
_ABORT_FIRST = """
    INSERT INTO door_transactions (broker, transaction, state) VALUES (%s, %s, 'Aborted') ON CONFLICT DO NOTHING
"""
# A session that commits at this moment has the row, and goes on.
_LAPSED = """
    SELECT t.broker, t.transaction FROM door_transactions t
    WHERE EXISTS (SELECT FROM door_parts p
                  WHERE (p.broker, p.transaction) = (t.broker, t.transaction) AND p.lapses_at <= clock_timestamp())
    ORDER BY t.broker, t.transaction FOR UPDATE SKIP LOCKED
"""
_NEXT_LAPSE = """
    SELECT extract(epoch FROM min(lapses_at) - clock_timestamp())::float8 FROM door_parts WHERE lapses_at IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class DoorPartRow:
    """A part with its job. ``begin`` and ``submitted`` are epoch seconds; ``held``: the broker can count on it.

    ``instead_of`` is the job whose place the part is to take.
    """

    name: str
    job: int
    kind: str
    state: str
    transaction: str
    begin: float | None
    held: bool
    job_state: str
    reservation_state: str | None
    message: str
    submitted: float
    instead_of: int | None

    @property
    def live(self) -> bool:
        """Whether its job is not over."""
        return self.job_state not in ("Terminated", "Error", "toError")


@dataclass(frozen=True, slots=True)
class NewDoorPart:
    """A part that is made. ``begin`` in epoch seconds, ``walltime`` in seconds."""

    name: str
    transaction: str
    job: int
    kind: str
    walltime: float
    begin: float | None = None
    instead_of: int | None = None


def transaction_state(connection: Connection, broker: str, transaction: str, *, begin: bool = False) -> str | None:
    """Return the state of a transaction, None for an unknown one; ``begin``: an unknown one becomes Prepared.

    Until the end of the caller's own transaction, no other process changes it.
    """
    if begin:
        connection.execute(_OPEN, [broker, [transaction]])
    row = connection.execute(_STATE, [broker, transaction]).fetchone()
    return None if row is None else row[0]


def transaction_states(connection: Connection, broker: str, transactions: Iterable[str]) -> dict[str, str]:
    """Return the states of transactions; unknown ones begin now and become Prepared.

    Until the end of the caller's own transaction, no other process changes them.
    """
    names = sorted(set(transactions))
    connection.execute(_OPEN, [broker, names])
    return dict(connection.execute(_STATES, [broker, names]).fetchall())


def part(connection: Connection, broker: str, name: str) -> DoorPartRow | None:
    """Return a part, which no other session changes until the end of the caller's transaction."""
    row = connection.execute(_PART, [broker, name]).fetchone()
    return None if row is None else DoorPartRow(*row)


def named(connection: Connection, broker: str, names: Sequence[str]) -> dict[str, DoorPartRow]:
    """Return the known parts among ``names``, by name."""
    rows = [DoorPartRow(*row) for row in connection.execute(_NAMED, [broker, list(names)])]
    return {row.name: row for row in rows}


def undecided(connection: Connection, broker: str, transaction: str) -> list[DoorPartRow]:
    """Return the parts of a transaction that are prepared or frozen; no other session changes them meanwhile."""
    return [DoorPartRow(*row) for row in connection.execute(_OF_TRANSACTION, [broker, transaction])]


def of_job(connection: Connection, job: int) -> tuple[str, str] | None:
    """Return the broker and the name of a job's part; None if the job is not the part of a grid job."""
    row = connection.execute(_OF_JOB, [job]).fetchone()
    return None if row is None else (row[0], row[1])


def is_elsewhere_too(connection: Connection, job: int, host: str) -> bool:
    """Tell whether another part of the same grid job has a host of the same name as one of this job."""
    row = connection.execute(_HOSTS_OF_ALL, [job]).fetchone()
    return row is not None and row[0].count(host) > hosts_of(connection, job).count(host)


def undecided_jobs(connection: Connection) -> dict[int, str]:
    """Return the jobs of which a part is prepared or frozen, with their brokers."""
    return dict(connection.execute(_UNDECIDED_JOBS).fetchall())


def waiting(connection: Connection, broker: str) -> list[DoorPartRow]:
    """Return the queued parts of a broker that were committed and have not begun, in order of submission."""
    return [DoorPartRow(*row) for row in connection.execute(_WAITING, [broker])]


def add(connection: Connection, broker: str, parts: Sequence[NewDoorPart], ttl: float) -> None:
    """Note parts, which lapse ``ttl`` seconds from now."""
    columns = {
        "parts": [part.name for part in parts],
        "jobs": [part.job for part in parts],
        "kinds": [part.kind for part in parts],
        "transactions": [part.transaction for part in parts],
        "begins": [part.begin for part in parts],
        "walltimes": [float(part.walltime) for part in parts],
        "held": [part.kind == "queued" for part in parts],
        "instead_of": [part.instead_of for part in parts],
    }
    connection.execute(_ADD, {"broker": broker, "ttl": ttl, **columns})


def add_bag(
    connection: Connection, broker: str, part: NewDoorPart, tasks: Sequence[int], offer: str, ttl: float
) -> None:
    """Note a bag, with the numbers of its tasks over all clusters, and the offer that it takes up.

    ``psycopg.errors.UniqueViolation``: another transaction has taken that up.
    """
    values = {**asdict(part), "broker": broker, "tasks": list(tasks), "offer": offer, "ttl": ttl}
    connection.execute(_ADD_BAG, values)


def is_taken_up(connection: Connection, broker: str, offer: str) -> bool:
    """Tell whether a part took up an offer."""
    return connection.execute(_TAKEN_UP, [broker, offer]).fetchone() is not None


def promise_of(connection: Connection, bag: int) -> float | None:
    """Return by when a bag is done (epoch seconds); None if that is not promised."""
    row = connection.execute(_PROMISE, [bag]).fetchone()
    return None if row is None else row[0]


def tasks_of(connection: Connection, bag: int) -> list[int]:
    """Return the jobs of a bag that are not over."""
    return [job for (job,) in connection.execute(_TASKS, [bag])]


def note_completions(connection: Connection, broker: str, completions: Sequence[tuple[str, float, int]]) -> None:
    """Note when bags are done over all clusters: part, instant (epoch seconds) and version. Older ones are dropped."""
    connection.execute(_COMPLETIONS, [*map(list, zip(*completions, strict=True)), broker])


def freeze(connection: Connection, broker: str, transaction: str, row: DoorPartRow, ttl: float) -> bool:
    """Hold a committed part that waits, in its rank; return False if it does not wait any more."""
    return connection.execute(_HOLD, [row.job]).rowcount == 1 and keep(connection, broker, transaction, row, ttl)


def keep(connection: Connection, broker: str, transaction: str, row: DoorPartRow, ttl: float) -> bool:
    """Note that a transaction is to end a committed part, which continues until then; False if there is none."""
    values = {"broker": broker, "transaction": transaction, "part": row.name, "ttl": ttl}
    return connection.execute(_FREEZE, values).rowcount == 1


def stop(connection: Connection, jobs: Sequence[int]) -> bool:
    """Keep passes from starting jobs that are to end; return False if one of them no longer waits."""
    return connection.execute(_STOP, [list(jobs)]).rowcount == len(jobs)


def take_places(connection: Connection, broker: str, transaction: str) -> None:
    """Let the parts that a transaction made have the resources of the parts whose places they take."""
    rows = connection.execute(_TAKE_PLACES, {"broker": broker, "transaction": transaction}).fetchall()
    connection.execute(_ALONE, [[job for job, alone in rows if alone]])


def were_prepared(connection: Connection, broker: str, transaction: str) -> bool:
    """Tell whether parts of a transaction that was undone are known here."""
    return connection.execute(_WERE_PREPARED, [broker, transaction]).fetchone() is not None


def is_held(connection: Connection, broker: str, part: str) -> None:
    """Note that the broker can count on a part from now on."""
    connection.execute(_IS_HELD, [broker, part])


def is_refused(connection: Connection, broker: str, part: str) -> None:
    """Note that a part could not be had."""
    connection.execute(_REFUSED, [broker, part])


def release(connection: Connection, jobs: Sequence[int]) -> None:
    """Let held jobs wait again."""
    connection.execute(_RELEASE, [list(jobs)])


def commit(connection: Connection, broker: str, transaction: str, begin: float | None, hosts: Sequence[str]) -> None:
    """Note that a transaction is committed, with all its parts."""
    values = {"broker": broker, "transaction": transaction, "begin": begin, "hosts": list(hosts)}
    connection.execute(_COMMIT, values)
    connection.execute(_SETTLE, ["Committed", broker, transaction, "Committed"])


def note_hosts(
    connection: Connection, broker: str, row: DoorPartRow, others: Sequence[str], process_map: Sequence[str] = ()
) -> None:
    """Note the hosts of all parts of a grid job: the hosts of the part that is here, and ``others``.

    ``process_map`` has lines ``host core size processes`` of the others.
    """
    hosts = [*hosts_of(connection, row.job), *others]
    connection.execute(_NOTE_HOSTS, [hosts, list(process_map), broker, row.name])


def abort(connection: Connection, broker: str, transaction: str) -> None:
    """Undo the preparations of a transaction that is not committed, and abort it for good."""
    connection.execute(_ABORT_FIRST, [broker, transaction])
    _undo(connection, [(broker, transaction)], "its broker did not need it", lapsed=False)


def lapse(connection: Connection) -> list[tuple[str, str]]:
    """Undo transactions of which a part was not committed in time; return (broker, transaction) of each."""
    late: list[tuple[str, str]] = connection.execute(_LAPSED).fetchall()
    if late:
        _undo(connection, late, "lapsed: not committed in time", lapsed=True)
    return late


def next_lapse(connection: Connection) -> float | None:
    """Return in how many seconds the next part lapses, by the clock of the database; None when none does."""
    row = connection.execute(_NEXT_LAPSE).fetchone()
    return None if row is None else row[0]


def hosts_of(connection: Connection, job: int) -> list[str]:
    """Return the hosts that a job holds or has reserved, one a processor."""
    return [host for (host,) in connection.execute(_HOSTS, {"job": job})]


def _undo(connection: Connection, transactions: Sequence[tuple[str, str]], reason: str, *, lapsed: bool) -> None:
    names = {"brokers": [broker for broker, _ in transactions], "transactions": [name for _, name in transactions]}
    connection.execute(_UNDO, {**names, "reason": reason, "lapsed": lapsed})
    connection.execute(_ABORT_ALL, names)
