"""Rows of a broker that contradict each other, one statement a kind: the contradiction, and its cure.

A state that the broker itself settles counts only after a minute.
"""

from __future__ import annotations

_OVER = "('Terminated', 'Error', 'Missed')"
_FUTURE = "now() + interval '1 minute'"
_SETTLED = "now() - interval '1 minute'"


def _in_the_future(what: str, table: str, key: str, column: str) -> str:
    """Return the SQL that names rows of ``table`` that tell of something after now."""
    return f"""
        SELECT format('{what} %s has {column} %s, which is to come', {key}, {column}),
               format('UPDATE {table} SET {column} = now() WHERE {key} = %L', {key})
        FROM {table} WHERE {column} > {_FUTURE} ORDER BY {key}
    """


QUERIES = (
    # Clusters
    _in_the_future("cluster", "grid_clusters", "name", "heard_at"),
    _in_the_future("cluster", "grid_clusters", "name", "silent_since"),
    # Jobs
    _in_the_future("grid job", "grid_jobs", "id", "submitted_at"),
    _in_the_future("grid job", "grid_jobs", "id", "started_at"),
    _in_the_future("grid job", "grid_jobs", "id", "delete_asked"),
    """
    SELECT format('grid job %s has %s components, and is to have %s', id, count(c.job), components),
           format('UPDATE grid_jobs SET components = %s WHERE id = %s', greatest(count(c.job), 1), id)
    FROM grid_jobs j LEFT JOIN grid_components c
        ON c.job = j.id AND (j.kind NOT IN ('metajob', 'bag') OR c.number < j.components)
    GROUP BY id HAVING count(c.job) <> components ORDER BY id
    """,
    f"""
    SELECT format('grid job %s is %s, and no part of it is anywhere', id, state), format('oargriddel %s', id)
    FROM grid_jobs j
    WHERE state IN ('Mapped', 'Claimed', 'Running') AND NOT EXISTS (SELECT FROM grid_parts p WHERE p.job = j.id)
      AND submitted_at < {_SETTLED} ORDER BY id
    """,
    f"""
    SELECT format('grid job %s is Running, and all its parts are over', id), format('oargriddel %s', id)
    FROM grid_jobs j
    WHERE state = 'Running' AND EXISTS (SELECT FROM grid_parts p WHERE p.job = j.id)
      AND NOT EXISTS (SELECT FROM grid_parts p WHERE p.job = j.id
                      AND (p.state NOT IN ('Ended', 'Gone') OR p.ended_at >= {_SETTLED}))
    ORDER BY id
    """,
    """
    SELECT format('grid job %s is %s and did not start', id, state), format('oargriddel %s', id)
    FROM grid_jobs WHERE state = 'Running' AND started_at IS NULL ORDER BY id
    """,
    """
    SELECT format('grid job %s is %s and started at %s', id, state, started_at),
           format('UPDATE grid_jobs SET started_at = NULL WHERE id = %s', id)
    FROM grid_jobs WHERE state IN ('Submitted', 'Claiming', 'Claimed') AND started_at IS NOT NULL ORDER BY id
    """,
    """
    SELECT format('grid job %s ended at %s, before it started at %s', id, ended_at, started_at),
           format('UPDATE grid_jobs SET started_at = ended_at WHERE id = %s', id)
    FROM grid_jobs WHERE ended_at < started_at - interval '1 minute' ORDER BY id
    """,
    """
    SELECT format('grid job %s ended at %s, before it was submitted at %s', id, ended_at, submitted_at),
           format('UPDATE grid_jobs SET submitted_at = ended_at WHERE id = %s', id)
    FROM grid_jobs WHERE ended_at < submitted_at - interval '1 minute' ORDER BY id
    """,
    """
    SELECT format('grid job %s is of array %s, which is of %s', j.id, j.array_id,
                  coalesce(min(f.user_name), 'nobody')),
           format('UPDATE grid_jobs SET array_id = NULL WHERE id = %s', j.id)
    FROM grid_jobs j LEFT JOIN grid_jobs f ON f.id = j.array_id
    WHERE j.array_id IS NOT NULL AND f.user_name IS DISTINCT FROM j.user_name GROUP BY j.id ORDER BY j.id
    """,
    """
    SELECT format('grid jobs %s are all number %s of array %s', string_agg(id::text, ', ' ORDER BY id), array_index,
                  array_id),
           format('UPDATE grid_jobs SET array_index = ... WHERE id IN (%s)', string_agg(id::text, ', ' ORDER BY id))
    FROM grid_jobs WHERE array_id IS NOT NULL GROUP BY array_id, array_index HAVING count(*) > 1
    """,
    # Parts
    f"""
    SELECT format('part %s is %s, and grid job %s is %s', p.name, p.state, j.id, j.state),
           format('UPDATE grid_parts SET end_asked = now() WHERE name = %L', p.name)
    FROM grid_parts p JOIN grid_jobs j ON j.id = p.job
    WHERE j.state IN {_OVER} AND j.ended_at < {_SETTLED} AND p.state IN ('Waiting', 'Freezing', 'Frozen', 'Running')
      AND p.end_asked IS NULL ORDER BY p.name
    """,
    """
    SELECT format('part %s is %s and has ended at %s', name, state, ended_at),
           format('UPDATE grid_parts SET ended_at = NULL WHERE name = %L', name)
    FROM grid_parts WHERE ended_at IS NOT NULL AND state NOT IN ('Ended', 'Gone') ORDER BY name
    """,
    """
    SELECT format('part %s has ended at %s, before it started at %s', name, ended_at, started_at),
           format('UPDATE grid_parts SET started_at = ended_at WHERE name = %L', name)
    FROM grid_parts WHERE ended_at < started_at - interval '1 minute' ORDER BY name
    """,
    """
    SELECT format('part %s is Running and did not start', name),
           format('UPDATE grid_parts SET started_at = made_at WHERE name = %L', name)
    FROM grid_parts WHERE state = 'Running' AND started_at IS NULL ORDER BY name
    """,
    """
    SELECT format('part %s is on cluster %s, and component %s of grid job %s asks for %s', p.name, p.cluster,
                  c.number, c.job, c.cluster),
           format('UPDATE grid_components SET cluster = %L WHERE job = %s AND number = %s', p.cluster, c.job, c.number)
    FROM grid_parts p JOIN grid_components c ON (c.job, c.number) = (p.job, p.component)
    WHERE c.cluster <> p.cluster AND p.state NOT IN ('Ended', 'Gone') ORDER BY p.name
    """,
    """
    SELECT format('parts %s are all job %s of cluster %s', string_agg(name, ', ' ORDER BY name), cluster_job, cluster),
           format('UPDATE grid_parts SET cluster_job = '''' WHERE name IN (%s)',
                  string_agg(quote_literal(name), ', ' ORDER BY name))
    FROM grid_parts WHERE cluster_job <> '' AND state NOT IN ('Ended', 'Gone')
    GROUP BY cluster, cluster_job HAVING count(*) > 1
    """,
    # A part says how far it is by its state; its transaction must be as far.
    """
    SELECT format('part %s is %s, and its transaction %s is %s', p.name, p.state, t.id, t.state),
           'look at the cluster, and at oargridctl doubts'
    FROM grid_parts p JOIN grid_transactions t ON t.id = p.transaction
    WHERE t.state = 'Done' AND t.done_at < now() - interval '1 minute'
      AND p.state IN ('Preparing', 'Prepared', 'Committing', 'Freezing', 'Frozen', 'Deleting', 'Aborting')
    ORDER BY p.name
    """,
    # Transactions
    _in_the_future("grid transaction", "grid_transactions", "id", "began_at"),
    _in_the_future("grid transaction", "grid_transactions", "id", "decided_at"),
    """
    SELECT format('grid transaction %s was decided at %s, before it began at %s', id, decided_at, began_at),
           format('UPDATE grid_transactions SET began_at = decided_at WHERE id = %s', id)
    FROM grid_transactions WHERE decided_at < began_at - interval '1 minute' ORDER BY id
    """,
    """
    SELECT format('grid transaction %s is Done, and cluster %s does not know how it ended', t.id, o.cluster),
           format('UPDATE grid_outcomes SET known_at = now() WHERE transaction = %s AND cluster = %L', t.id, o.cluster)
    FROM grid_transactions t JOIN grid_outcomes o ON o.transaction = t.id
    WHERE t.state = 'Done' AND o.known_at IS NULL ORDER BY t.id, o.cluster
    """,
    f"""
    SELECT format('grid transaction %s is %s, and is about no cluster', t.id, t.state),
           format('UPDATE grid_transactions SET state = ''Aborting'', committed = false, decided_at = now()'
                  ' WHERE id = %s', t.id)
    FROM grid_transactions t
    WHERE t.state IN ('Preparing', 'Held', 'Committing') AND t.began_at < {_SETTLED}
      AND NOT EXISTS (SELECT FROM grid_outcomes o WHERE o.transaction = t.id) ORDER BY t.id
    """,
    f"""
    SELECT format('grid transaction %s is %s, and grid job %s is %s', t.id, t.state, j.id, j.state),
           format('UPDATE grid_transactions SET state = ''Aborting'', committed = false, decided_at = now()'
                  ' WHERE id = %s', t.id)
    FROM grid_transactions t JOIN grid_jobs j ON j.id = t.job
    WHERE t.state IN ('Preparing', 'Held') AND j.state IN {_OVER} AND j.ended_at < {_SETTLED} ORDER BY t.id
    """,
    # Tries
    """
    SELECT format('try %s of grid job %s is %s', number, job,
                  CASE WHEN done_at IS NULL THEN 'to be made, and came to ' || outcome
                       ELSE 'done, and came to nothing' END),
           format('UPDATE grid_tries SET %s WHERE job = %s AND number = %s',
                  CASE WHEN done_at IS NULL THEN 'outcome = ''''' ELSE 'outcome = ''no room''' END, job, number)
    FROM grid_tries WHERE (done_at IS NULL) <> (outcome = '') ORDER BY job, number
    """,
    """
    SELECT format('grid job %s is %s, and has tries', j.id, j.kind),
           format('DELETE FROM grid_tries WHERE job = %s', j.id)
    FROM grid_jobs j JOIN grid_tries t ON t.job = j.id WHERE j.kind = 'mapped' GROUP BY j.id ORDER BY j.id
    """,
    """
    SELECT format('the last tries of grid job %s are several', job),
           format('UPDATE grid_tries SET last = false WHERE job = %s AND number < %s', job, max(number))
    FROM grid_tries WHERE last GROUP BY job HAVING count(*) > 1 ORDER BY job
    """,
    # Passes and moves
    """
    SELECT format('pass %s ended at %s, and began %s', id, ended_at, coalesce('at ' || began_at, 'never')),
           format('UPDATE grid_passes SET began_at = ended_at WHERE id = %s', id)
    FROM grid_passes WHERE ended_at IS NOT NULL AND (began_at IS NULL OR ended_at < began_at) ORDER BY id
    """,
    """
    SELECT format('pass %s moved %s jobs of %s', id, moved, waiting),
           format('UPDATE grid_passes SET moved = %s WHERE id = %s', greatest(least(moved, waiting), 0), id)
    FROM grid_passes WHERE moved > waiting OR moved < 0 OR waiting < 0 ORDER BY id
    """,
    """
    SELECT format('move %s of grid job %s is from cluster %s to itself', id, job, source),
           format('DELETE FROM grid_moves WHERE id = %s', id)
    FROM grid_moves WHERE source = target ORDER BY id
    """,
    """
    SELECT format('move %s of grid job %s is %s, and transaction %s was %s', m.id, m.job, m.outcome, t.id,
                  CASE WHEN t.committed THEN 'committed' ELSE 'given up' END),
           format('UPDATE grid_moves SET outcome = %L WHERE id = %s',
                  CASE WHEN t.committed THEN 'moved' ELSE 'given up' END, m.id)
    FROM grid_moves m JOIN grid_transactions t ON t.id = m.transaction
    WHERE t.state = 'Done' AND t.done_at < now() - interval '1 minute'
      AND (m.outcome = 'open' OR (m.outcome = 'moved' AND NOT t.committed)) ORDER BY m.id
    """,
    # The rows of brokers on a cluster
    f"""
    SELECT format('part %s of broker %s is %s, and job %s is %s', d.part, d.broker, d.state, j.job_id, j.state),
           format('oardel %s', j.job_id)
    FROM door_parts d JOIN jobs j USING (job_id)
    WHERE d.state IN ('Prepared', 'Frozen', 'Aborted') AND j.state = 'Running' AND d.made_at < {_SETTLED}
      AND d.begin_at IS NULL ORDER BY d.broker, d.part
    """,
    """
    SELECT format('part %s of broker %s is of transaction %s, which nobody knows', d.part, d.broker, d.transaction),
           format('oardel %s', d.job_id)
    FROM door_parts d LEFT JOIN door_transactions t USING (broker, transaction)
    WHERE t.broker IS NULL AND d.state IN ('Prepared', 'Frozen') ORDER BY d.broker, d.part
    """,
)
