"""Changes on clusters that happen on all of them or on none: prepared acts, decisions, and their confirmations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from oarpy.model.states import GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import broker_parts


@dataclass(frozen=True, slots=True)
class GridTransactionRow:
    """A transaction; times in epoch seconds. ``unaware`` are the clusters that do not know yet how it ended.

    ``word`` is part of its name on clusters.
    """

    id: int
    kind: str
    module: str
    job: int | None
    state: GridTransactionState
    began: float
    decided: float | None
    committed: bool | None
    begin: float | None
    done: float | None
    message: str
    clusters: tuple[str, ...]
    unaware: tuple[str, ...]
    word: str


@dataclass(frozen=True, slots=True)
class NewGridPart:
    """A part that a transaction makes. ``walltime`` in seconds on its cluster."""

    name: str
    job: int
    component: int
    cluster: str
    kind: str
    walltime: float


@dataclass(frozen=True, slots=True)
class GridDoubt:
    """A cluster that got the outcome of a transaction, but has not confirmed it. ``since`` in epoch seconds."""

    transaction: int
    kind: str
    job: int | None
    cluster: str
    committed: bool
    since: float
    asked: int
    message: str


_TRANSACTION = """
    SELECT t.id, t.kind, t.module, t.job, t.state, extract(epoch FROM t.began_at)::float8,
           extract(epoch FROM t.decided_at)::float8, t.committed, extract(epoch FROM t.begin_at)::float8,
           extract(epoch FROM t.done_at)::float8, t.message,
           ARRAY(SELECT o.cluster FROM grid_outcomes o WHERE o.transaction = t.id ORDER BY o.cluster),
           ARRAY(SELECT o.cluster FROM grid_outcomes o WHERE o.transaction = t.id AND o.known_at IS NULL
                 ORDER BY o.cluster), t.word
    FROM grid_transactions t
"""
_ONE = f"{_TRANSACTION} WHERE t.id = %s"
_OPEN = f"{_TRANSACTION} WHERE t.module = %s AND t.state <> 'Done' ORDER BY t.id"
_OF_JOB = f"{_TRANSACTION} WHERE t.job = %s ORDER BY t.id"
# Numbers come again after a restore, and in another database: the word does not, and says the generation.
_BEGIN = """
    INSERT INTO grid_transactions (kind, module, job, ttl, begin_at, word) VALUES (
        %s, %s, %s, %s, to_timestamp(%s),
        (SELECT left(encode(sha256(convert_to(concat(s.instance, database_copy()), 'UTF8')), 'hex'), 10) || '.' || g
         FROM notice_restore() g, site s))
    RETURNING id
"""
_WORD = "SELECT word FROM grid_transactions WHERE id = %s"
_ADD_CLUSTERS = "INSERT INTO grid_outcomes (transaction, cluster) SELECT %s, unnest(%s::text[]) ON CONFLICT DO NOTHING"
# However slow a cluster says it is, a walltime there must be fit to be stored.
_ADD_PARTS = """
    INSERT INTO grid_parts (transaction, name, job, component, cluster, kind, walltime)
    SELECT %s, name, job, component, cluster, kind, make_interval(secs => least(walltime, 1e9))
    FROM unnest(%s::text[], %s::bigint[], %s::int[], %s::text[], %s::text[], %s::float8[])
        AS s(name, job, component, cluster, kind, walltime)
"""
# A part whose last transaction is not done is not frozen: its cluster may still get the outcome of that transaction.
_FREEZE = """
    UPDATE grid_parts p SET state = 'Freezing', transaction = %s FROM grid_transactions t
    WHERE p.name = ANY(%s) AND p.state = 'Waiting' AND t.id = p.transaction AND t.state = 'Done'
    RETURNING p.name, p.cluster
"""
_PREPARED = """
    UPDATE grid_parts p SET state = CASE p.state WHEN 'Preparing' THEN 'Prepared' ELSE 'Frozen' END,
        cluster_job = coalesce(nullif(s.job, ''), p.cluster_job)
    FROM unnest(%s::text[], %s::text[]) AS s(name, job)
    WHERE p.name = s.name AND p.transaction = %s AND p.state IN ('Preparing', 'Freezing')
"""
_HOLD = "UPDATE grid_transactions SET state = 'Held' WHERE id = %s AND state = 'Preparing' RETURNING id"
_DECIDE = """
    UPDATE grid_transactions SET state = 'Committing', committed = true, decided_at = clock_timestamp(),
        begin_at = coalesce(to_timestamp(%s), begin_at)
    WHERE id = %s AND state IN ('Preparing', 'Held')
      AND NOT EXISTS (SELECT FROM grid_parts p WHERE p.transaction = grid_transactions.id
                        AND p.state NOT IN ('Prepared', 'Frozen'))
    RETURNING id
"""
# Old copies stop counting before new ones begin to count: the index on startable parts looks at each row.
_DELETING = "UPDATE grid_parts SET state = 'Deleting' WHERE transaction = %s AND state = 'Frozen'"
_COMMITTING = "UPDATE grid_parts SET state = 'Committing' WHERE transaction = %s AND state = 'Prepared'"
_GIVE_UP = """
    UPDATE grid_transactions SET state = 'Aborting', committed = false, decided_at = clock_timestamp(), message = %s
    WHERE id = %s AND state IN ('Preparing', 'Held') RETURNING id
"""
_ABORTING = """
    UPDATE grid_parts SET state = 'Aborting', message = %s
    WHERE transaction = %s AND state IN ('Preparing', 'Prepared')
"""
_THAW = "UPDATE grid_parts SET state = 'Waiting' WHERE transaction = %s AND state IN ('Freezing', 'Frozen')"
_KNOWN = """
    UPDATE grid_outcomes SET known_at = clock_timestamp(), asked = asked + 1, message = %s
    WHERE transaction = %s AND cluster = %s AND known_at IS NULL
"""
_KNOWN_PARTS = """
    UPDATE grid_parts SET state = CASE state WHEN 'Committing' THEN 'Waiting' ELSE 'Gone' END
    WHERE transaction = %s AND cluster = %s AND state IN ('Committing', 'Deleting', 'Aborting')
"""
# A cluster that dropped its prepared parts has nothing of them any more.
_LOST_PARTS = """
    UPDATE grid_parts SET state = CASE state WHEN 'Committing' THEN 'Ended' ELSE 'Gone' END, message = %s,
        ended_at = clock_timestamp()
    WHERE transaction = %s AND cluster = %s AND state IN ('Committing', 'Deleting', 'Aborting')
"""
_UNKNOWN = """
    UPDATE grid_outcomes SET asked = asked + %s, message = %s
    WHERE transaction = %s AND cluster = %s AND known_at IS NULL
"""
_DONE = """
    UPDATE grid_transactions t SET state = 'Done', done_at = clock_timestamp()
    WHERE t.id = %(id)s AND t.state IN ('Committing', 'Aborting')
      AND NOT EXISTS (SELECT FROM grid_outcomes o WHERE o.transaction = t.id AND o.known_at IS NULL)
    RETURNING t.id
"""
# New copies stop counting before old ones begin to count. An amended job has both copies on one cluster, while other
# clusters get the decision at the same time: their part of it stays.
_END_NEW = """
    UPDATE grid_parts p SET state = 'Ended', message = %(reason)s, ended_at = clock_timestamp() FROM grid_transactions t
    WHERE t.id = %(id)s AND p.transaction = t.id AND p.state = 'Committing'
      AND (t.kind <> 'amend' OR p.cluster = %(cluster)s)
"""
_KEEP_OLD = """
    UPDATE grid_parts p SET state = 'Waiting' FROM grid_transactions t
    WHERE t.id = %(id)s AND p.transaction = t.id AND p.state = 'Deleting'
      AND (t.kind <> 'amend' OR p.cluster = %(cluster)s)
"""
# An amended job may have the component of an old part on another cluster by now.
_TAKEN = """
    SELECT p.name FROM grid_parts p WHERE p.transaction = %(id)s AND p.cluster = %(cluster)s AND p.state = 'Deleting'
      AND EXISTS (SELECT FROM grid_parts q WHERE (q.job, q.component) = (p.job, p.component)
                    AND q.state IN ('Committing', 'Waiting', 'Freezing', 'Running'))
    ORDER BY p.name
"""
_DOUBTS = """
    SELECT t.id, t.kind, t.job, o.cluster, t.committed, extract(epoch FROM t.decided_at)::float8, o.asked, o.message
    FROM grid_outcomes o JOIN grid_transactions t ON t.id = o.transaction
    WHERE t.state IN ('Committing', 'Aborting') AND o.known_at IS NULL ORDER BY t.id, o.cluster
"""


def read(connection: Connection, transaction: int) -> GridTransactionRow | None:
    """Return the transaction with this id, or None."""
    transactions = _rows(connection, _ONE, transaction)
    return transactions[0] if transactions else None


def open_of(connection: Connection, module: str) -> list[GridTransactionRow]:
    """Return the transactions of a module that are not done, the oldest first."""
    return _rows(connection, _OPEN, module)


def of_job(connection: Connection, job: int) -> list[GridTransactionRow]:
    """Return the transactions of a job alone, the oldest first."""
    return _rows(connection, _OF_JOB, job)


def begin(
    connection: Connection, kind: str, module: str, job: int | None, ttl: float, begin_at: float | None = None
) -> int:
    """Begin a transaction; return its number. ``ttl`` in seconds, ``begin_at`` in epoch seconds."""
    values = [kind, module, job, timedelta(seconds=ttl), begin_at]
    row = connection.execute(_BEGIN, values).fetchone()
    assert row is not None
    return int(row[0])


def word(connection: Connection, transaction: int) -> str:
    """Return the word that is part of the names of a transaction on clusters."""
    row = connection.execute(_WORD, [transaction]).fetchone()
    return str(row[0]) if row else ""


def add_parts(connection: Connection, transaction: int, parts: Sequence[NewGridPart]) -> None:
    """Let a transaction make parts."""
    connection.execute(_ADD_CLUSTERS, [transaction, sorted({part.cluster for part in parts})])
    columns: list[list[object]] = [
        [part.name for part in parts],
        [part.job for part in parts],
        [part.component for part in parts],
        [part.cluster for part in parts],
        [part.kind for part in parts],
        [float(part.walltime) for part in parts],
    ]
    connection.execute(_ADD_PARTS, [transaction, *columns])


def freeze(connection: Connection, transaction: int, names: Sequence[str]) -> list[str]:
    """Let a transaction freeze waiting parts; return the frozen ones. The others have started, or are being changed."""
    rows = connection.execute(_FREEZE, [transaction, list(names)]).fetchall()
    connection.execute(_ADD_CLUSTERS, [transaction, sorted({row[1] for row in rows})])
    return [row[0] for row in rows]


def note_prepared(connection: Connection, transaction: int, jobs: Mapping[str, str]) -> None:
    """Note the parts that clusters have prepared or frozen, by name: the cluster's job, empty if it is as before."""
    connection.execute(_PREPARED, [list(jobs), list(jobs.values()), transaction])


def hold(connection: Connection, transaction: int) -> bool:
    """Keep the prepared parts until a later decision, over restarts of the module too; tell whether they are kept."""
    return connection.execute(_HOLD, [transaction]).fetchone() is not None


def decide(connection: Connection, transaction: int, begin_at: float | None = None) -> bool:
    """Store the decision that it happens, if all of it is prepared and it was not given up; tell whether it does.

    ``psycopg.errors.UniqueViolation``: a component would have two parts that could start.
    """
    if connection.execute(_DECIDE, [begin_at, transaction]).fetchone() is None:
        return False
    connection.execute(_DELETING, [transaction])
    connection.execute(_COMMITTING, [transaction])
    return True


def give_up(connection: Connection, transaction: int, reason: str) -> bool:
    """Give up a transaction that was not decided; tell whether it is given up by this."""
    if connection.execute(_GIVE_UP, [reason[:1000], transaction]).fetchone() is None:
        return False
    connection.execute(_ABORTING, [reason[:1000], transaction])
    connection.execute(_THAW, [transaction])
    return True


def note_known(connection: Connection, transaction: int, cluster: str, lost: str = "") -> bool:
    """Note that a cluster knows how a transaction ended; tell whether all clusters do now.

    ``lost`` says why the cluster has nothing of its prepared acts.
    """
    connection.execute(_KNOWN, [lost[:1000], transaction, cluster])
    if lost:
        connection.execute(_LOST_PARTS, [lost[:1000], transaction, cluster])
    else:
        connection.execute(_KNOWN_PARTS, [transaction, cluster])
    return connection.execute(_DONE, {"id": transaction}).fetchone() is not None


def keep_old(connection: Connection, transaction: int, cluster: str, reason: str) -> None:
    """Note that a cluster let the old copy of a job go on, though a move was decided: the old copy stays.

    For a move, the cluster of the new copy does not know the decision yet, because the cluster of the old copy gets it
    first. For an amendment, other clusters do know it, and their part stays. So an old copy whose component has a part
    on another cluster by now is set aside.
    """
    about = {"id": transaction, "cluster": cluster, "reason": reason[:1000]}
    connection.execute(_END_NEW, about)
    broker_parts.set_aside(connection, [row[0] for row in connection.execute(_TAKEN, about).fetchall()])
    connection.execute(_KEEP_OLD, about)


def note_unknown(connection: Connection, transaction: int, cluster: str, reason: str, times: int = 1) -> None:
    """Note that a cluster got an outcome ``times`` times and did not answer."""
    connection.execute(_UNKNOWN, [times, reason[:1000], transaction, cluster])


def doubts(connection: Connection) -> list[GridDoubt]:
    """Return the clusters that have not confirmed the outcome of a transaction."""
    return [GridDoubt(*row) for row in connection.execute(_DOUBTS).fetchall()]


def _rows(connection: Connection, query: str, value: int | str) -> list[GridTransactionRow]:
    transactions = []
    for row in connection.execute(query, [value]).fetchall():
        fields = list(row)
        fields[4], fields[11], fields[12] = GridTransactionState(row[4]), tuple(row[11]), tuple(row[12])
        transactions.append(GridTransactionRow(*fields))
    return transactions
