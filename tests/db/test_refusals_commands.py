"""Bad input: the documented exit status, exactly one line on stderr, nothing on stdout, nothing changed."""

from __future__ import annotations

import pytest
from psycopg.sql import SQL, Identifier

from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes

pytestmark = pytest.mark.db

HUGE = "x" * 1_000_000

REFUSALS: list[tuple[str, int, str]] = [
    ("oarstat -j abc", 2, "'abc' is not a job id"),
    ("oarstat -j 0", 2, "'0' is not a job id"),
    ("oarstat -j -5", 2, "-5"),
    ("oarstat -j ٣", 2, "is not a job id"),
    ("oarstat -j 99999999999999999999", 2, "is not a job id"),
    ("oarstat -j", 2, "OAR_JOB_ID is not set"),
    ("oarstat -j 4242", 4, "job 4242 does not exist"),
    ("oarstat --array 4242", 4, "array 4242 does not exist"),
    ("oarstat --format 9", 2, "unknown output format '9'"),
    ("oarstat --sql nosuch=1", 2, "nosuch"),
    ("oarstat --sql state='Foo'", 2, "'Foo' is not a state of jobs (states: Hold, Waiting"),
    ("oarstat --sql state='running'", 2, "did you mean Running?"),
    ("oarstat --sql 1=1;DROP|TABLE|jobs", 2, "filter"),
    ("oarstat --sql state=pg_sleep(9)", 2, "filter"),
    ("oarstat --sql job_id|IN|(SELECT|1)", 2, "subselect"),
    ("oarstat --sql ", 2, "empty filter"),
    ("oarstat -g a,b,c", 2, "is not a period (write two dates: 'now, +30m'"),
    ("oarstat -g 2026-05-02,2026-05-01", 2, "is empty"),
    ("oarstat --accounting 2026-13-01,2026-05-01", 2, "'2026-13-01' is not a date"),
    ("oarstat -g 2026-05-01,2026-05-02 --accounting 2026-05-01,2026-05-02", 2, "exclude each other"),
    ("oarstat -u \udcff", 2, "is not a user"),
    (f"oarstat -u {HUGE}", 2, "is not a user"),
    ("oarstat \udcff", 4, "there is no queue"),
    ("oarstat --sql state='\udcff'", 2, "not text"),
    ("oarstat nosuchqueue", 4, "there is no queue 'nosuchqueue'"),
    ("oarstat --nosuch", 2, "No such option: --nosuch (see oarstat --help)"),
    ("oarstat --gant", 2, "No such option: --gant (Possible options: --at, --gantt)"),
    (f"oarstat --sql {HUGE}", 2, "filter of 1000000 characters"),
    ("oardel", 2, "no job given"),
    ("oardel x1", 2, "'x1' is not a job id"),
    (f"oardel {HUGE}", 2, "is not a job id"),
    ("oardel 4242", 4, "job 4242 does not exist"),
    ("oardel 3", 1, "job 3 has already ended (Terminated)"),
    ("oardel -c -s TERM 2", 2, "exclude each other"),
    ("oardel -s NOSUCH 2", 2, "'NOSUCH' is not a signal"),
    ("oardel -s 65 2", 2, "'65' is not a signal"),
    ("oardel -s USR1 1", 1, "job 1 is Waiting and cannot get a signal"),
    ("oardel -c 1", 1, "job 1 is Waiting and cannot be checkpointed"),
    ("oardel --array 4242", 4, "array 4242 does not exist"),
    ("oardel --array 3", 1, "every job of the array has already ended"),
    ("oardel --sql state='Suspended'", 4, "no live job meets the condition"),
    ("oardel --sql state='Waiting' 1", 2, "--sql and ids exclude each other"),
    ("oardel --sql state=1", 2, "filter"),
    ("oarsh -j 3 node1 true", 4, "job 3 does not run: it is Terminated"),
    ("oarsh -j 4242 node1 true", 4, "there is no job 4242"),
    ("oarhold 2", 1, "job 2 is Running and cannot be held"),
    ("oarhold 3", 1, "job 3 has already ended"),
    ("oarhold 4242", 4, "job 4242 does not exist"),
    ("oarhold", 2, "no job given"),
    ("oarresume 2", 1, "job 2 is Running and cannot be resumed"),
    ("oarresume 1.5", 2, "'1.5' is not a job id"),
    ("oarnodes nosuch", 4, "there is no node nosuch"),
    ("oarnodes node[1-", 2, "is not a set of names"),
    ("oarnodes @all", 2, "is not a plain set of names"),
    ("oarnodes node[1-999999999]", 2, "is not a plain set of names"),
    ("oarnodes -r 4242", 4, "there is no resource 4242"),
    ("oarnodes -r 1 node1", 2, "exclude each other"),
    ("oarnodes -s -l", 2, "exclude each other"),
    ("oarnodes -e 2026-99-01", 2, "'2026-99-01' is not a date"),
    ("oarnodes --sql nosuch=1", 2, "nosuch"),
    ("oarnodesetting", 2, "no resource given"),
    ("oarnodesetting -h node1", 2, "nothing to change"),
    ("oarnodesetting -h nosuch -s Dead", 4, "there is no node nosuch"),
    ("oarnodesetting -h node1 -s Broken", 2, "'Broken' is not a state"),
    ("oarnodesetting -h node1 -m maybe", 2, "'maybe' is no value of -m"),
    ("oarnodesetting -h node1 -s Dead -m on", 2, "exclude each other"),
    ("oarnodesetting -h node1 -p nosuch=1", 4, "there is no property 'nosuch'"),
    ("oarnodesetting -h node1 -p core=x", 2, "'x' is no value of property 'core'"),
    ("oarnodesetting -h node1 -p core=99999999999", 2, "is no value of property 'core'"),
    ("oarnodesetting -h node1 -p core=-", 2, "'-' is no value of property 'core'"),
    ("oarnodesetting -h node1 -p core", 2, "'core' gives no property a value"),
    ("oarnodesetting -h node1 -p besteffort=maybe", 2, "'maybe' is no value of property 'besteffort'"),
    ("oarnodesetting -h node1 -p resource_id=7", 2, "'resource_id' cannot be set"),
    ("oarnodesetting -h node1 -p type!", 2, "property 'type' cannot be without a value"),
    ("oarnodesetting -h node1 -p type=|", 2, "is no value of property 'type'"),
    ("oarnodesetting -h node1 -p network_address=node2", 1, "resource 1 is held by job 2"),
    ("oarnodesetting -a -r 1", 2, "-a goes with -h and -p only"),
    ("oarnodesetting -a -p core=1", 2, "needs a node"),
    ("oarnodesetting --sql host='nosuch' -s Dead", 4, "no resource meets the condition"),
    ("oarproperty -a host", 1, "property 'host' exists already"),
    ("oarproperty -a state_by", 1, "property 'state_by' exists already"),
    ("oarproperty -a ctid", 1, "property 'ctid' exists already"),
    ("oarproperty -a nodes", 2, "'nodes' has a meaning in requests"),
    ("oarproperty -a x;y", 2, "'x;y' is no name for a property"),
    ("oarproperty -a é", 2, "is no name for a property"),
    ("oarproperty -d nosuch", 4, "there is no property 'nosuch'"),
    ("oarproperty -a order", 2, "'order' is a word of SQL"),
    ("oaradmin resources add /left={2} --type x", 2, "'left' is a word of SQL"),
    ("oaradmin resources add /nodes={2} --type x", 2, "'nodes' has a meaning in requests"),
    ("oarproperty -d state", 1, "property 'state' is part of oarpy"),
    ("oarproperty -r host", 2, "'host' is not old,new"),
    ("oarproperty -r host,cpu", 1, "property 'cpu' exists already"),
    ("oarproperty -a a -d b", 2, "one action at a time"),
    ("oarproperty -c", 2, "-c goes with -a"),
    ("oarqueue --add default,3,fifo", 1, "queue 'default' exists already"),
    ("oarqueue --add night", 2, "'night' describes no queue"),
    ("oarqueue --add night,-1,fifo", 2, "'-1' is no priority"),
    ("oarqueue --add ni|ght,1,fifo", 2, "is no name for a queue"),
    ("oarqueue --add night,1,lottery", 2, "'lottery' is no policy"),
    ("oarqueue --change nosuch,1,fifo", 4, "there is no queue 'nosuch'"),
    ("oarqueue --remove default", 1, "queue 'default' has jobs"),
    ("oarqueue -d default -d nosuch", 4, "there is no queue 'nosuch'"),
    ("oarqueue -E -D", 2, "one action at a time"),
    ("oaraccounting --delete-before soon", 2, "'soon' is not a date"),
    ("oaraccounting --delete-before 99999999999999", 2, "out of range"),
    ("oaraccounting --reinitialize --delete-before 5", 2, "exclude each other"),
    ("oaradmin resources add", 2, "nothing to add (a pattern such as /host=node[1-4]/core={8}, or --probe NODES)"),
    ("oaradmin resources add /host=node[7-8]/core=2", 2, "evenly (give a multiple, or core={N} for N in each)"),
    ("oaradmin policy try --policy magic", 2, "unknown policy 'magic'"),
    ("oaradmin policy try --quotas nowhere.json", 2, "cannot read the quotas 'nowhere.json'"),
    ("oaradmin resources add /", 2, "empty resource pattern"),
    ("oaradmin resources add /host=node[7-8]/core={0}", 2, "level 'core' of {0} is out of range"),
    ("oaradmin resources add /host=node[7-8]/core=4x{", 2, "is no count"),
    ("oaradmin resources add /host=node[7-8]/host={2}", 2, "level named twice"),
    ("oaradmin resources add /core={2}", 2, "need a node"),
    ("oaradmin resources add /host=node[1-2]/core={2}", 1, "node 'node1' has resources of type 'default' already"),
    ("oaradmin resources add /rack={2}/host=node[7-9]/core={2}", 2, "cannot be dealt out to 2 parents"),
    ("oaradmin resources add /host=node7/state={2}", 2, "'state' cannot be a level"),
    ("oaradmin resources add /host=node7/state_by={2}", 2, "'state_by' is a column of oarpy itself"),
    ("oaradmin resources add /host=node7/core={1000000}/thread={1000000}", 2, "makes over 1000000 resources"),
    ("oaradmin resources add /host=node7/core={1} --transport pigeon", 2, "unknown transport 'pigeon'"),
    ("oaradmin resources add /host=node[7-9]/core={1} --port 1-2", 2, "--port gives 2 values for 3 nodes"),
    ("oaradmin resources add /host=node7/core={1} --port 70000", 2, "'70000' is not a port"),
    ("oaradmin resources add /host=node7/rack=z -p nosuch=1", 4, "there is no property 'nosuch'"),
    ("oaradmin resources add /host=no(de7/core={1}", 2, "is no value of property 'network_address'"),
    ("oaradmin resources add /licence={1} --type a|b", 2, "'a b' is no value of property 'type'"),
    ("oaradmin resources add /host=nodé7", 2, "is not a set of names"),
    ("oaradmin resources delete", 2, "no resource given"),
    ("oaradmin resources delete 1", 1, "resource 1 has been used by jobs"),
    ("oaradmin resources delete 4242", 4, "there is no resource 4242"),
    ("oaradmin resources nosuch", 2, "nosuch"),
]
"""Command line (a ``|`` is a blank inside an argument), exit status, words of the message."""


@pytest.fixture
def cluster(connection: Connection) -> Connection:
    """Two nodes; job 1 waits, job 2 runs, job 3 has ended."""
    cores = add_nodes(connection, "node1", "node2")
    add_job(connection)
    add_job(connection, "Running", resources=cores[:2])
    add_job(connection, "Terminated", resources=cores[2:])
    return connection


def dump(connection: Connection) -> dict[str, list[str]]:
    """Return every row of every table as text, where sequences stand, and the type of every column."""
    relations = connection.execute(
        "SELECT relname, relkind = 'S' FROM pg_class"
        " WHERE relkind IN ('r', 'p', 'S') AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    contents = {}
    for name, sequence in relations:
        query = SQL("SELECT last_value::text FROM {} t") if sequence else SQL("SELECT t::text FROM {} t")
        contents[name] = sorted(row[0] for row in connection.execute(query.format(Identifier(name))))
    columns = connection.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
    )
    contents["columns"] = sorted(map(str, columns))
    return contents


@pytest.mark.parametrize("command", sorted({line.split()[0] for line, _, _ in REFUSALS}))
def test_refused(cluster: Connection, shell: Shell, command: str) -> None:
    before = dump(cluster)
    wrong = []
    for line, status, words in REFUSALS:
        name, *arguments = (word.replace("|", " ") for word in line.split(" "))
        if name != command:
            continue
        result = shell(name, *arguments)
        one_line = result.err.startswith(f"{name}: ") and result.err.count("\n") == 1 and result.err.endswith("\n")
        if (result.status, result.out, one_line, words in result.err) != (status, "", True, True):
            wrong.append((line[:80], status, words, result))
    assert wrong == []
    assert dump(cluster) == before


ADMIN_ONLY = [
    "oarnodesetting -h node1 -s Dead",
    "oarnodesetting -a -h node9",
    "oarproperty -a mem",
    "oarproperty -d cpu",
    "oarproperty -r cpu,socket",
    "oarqueue --add night,5,fifo",
    "oarqueue --change default,5,fifo",
    "oarqueue --remove besteffort",
    "oarqueue -D",
    "oaraccounting",
    "oaraccounting --delete-before 2026-01-01",
    "oaradmin resources add /host=node9/core={1}",
    "oaradmin resources delete 3",
    "oardel -b 2",
]


@pytest.mark.parametrize("command", sorted({line.split()[0] for line in ADMIN_ONLY}))
def test_only_an_admin_may(cluster: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    before = dump(cluster)
    for line in ADMIN_ONLY:
        name, *arguments = line.split()
        if name == command:
            result = shell(name, *arguments)
            assert (result.status, result.out, result.err.count("\n")) == (5, "", 1), line
            assert f"{name}: only an admin may " in result.err
    assert dump(cluster) == before


def test_a_database_that_does_not_answer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    for line in ("oarstat", "oardel 1", "oarhold 1", "oarnodes", "oarqueue", "oarproperty", "oaradmin resources list"):
        name, *arguments = line.split()
        result = shell(name, *arguments)
        assert (result.status, result.out, result.err.count("\n")) == (6, "", 1), result
