"""Rows of elastic nodes follow the template; what the commands tell and leave undone follows from rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oarpy.configuration import Configuration
from oarpy.elastic.elastic_nodes import ElasticNodes
from oarpy.modules.energy import EnergySaving, addresses
from oarpy.store.platform import power
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db

STATES = "SELECT DISTINCT network_address, state, drain FROM resources ORDER BY 1"
ABSENT, ALIVE, DEAD = ("Absent", False), ("Alive", False), ("Dead", False)


def settings(spool: Path, most: int, **elastic: Any) -> Configuration:
    broken = f"{{ [ ! -e {spool.with_name('broken')} ] || {{ cat {spool.with_name('broken')} >&2; exit 7; }}; }}"
    commands = {
        "wake_command": f"{broken}; tee -a {spool} | sed 's/$/ there 22/'",
        "sleep_command": f"{broken}; sed 's/^/-/' >> {spool}",
    }
    return with_settings(
        energy={"enabled": True, "idle_time": 0.0, "sleep_time": 60.0, **commands},
        elastic={"most": most, "name": "c", "resources": "/core={2}", **elastic},
    )


class Cloud:
    """A cluster of elastic nodes."""

    def __init__(self, connection: Connection, spool: Path) -> None:
        self.spool = spool
        self.cluster = SmallCluster(connection, settings(spool, 2))
        self.most(2)

    def most(self, number: int, **elastic: Any) -> str:
        """Set how many nodes there may be; return what the module says."""
        return self.cluster.run(ElasticNodes(settings(self.spool, number, **elastic))).word

    def energy(self) -> None:
        module = EnergySaving(self.cluster.settings)
        while self.cluster.run(module).again:
            pass

    def states(self) -> dict[str, tuple[str, bool]]:
        return {name: (state, drain) for name, state, drain in self.cluster.sql(STATES)}

    def create(self) -> None:
        """Have the nodes that are wanted created, and their jobs started."""
        self.cluster.settle()
        self.energy()
        self.cluster.settle()
        self.energy()
        self.cluster.settle()

    def rest(self) -> None:
        """Have what is idle deleted."""
        self.cluster.settle()
        self.energy()
        self.cluster.settle()

    def breaks(self, words: str) -> None:
        """Have all commands fail with ``words`` from now on; none: they succeed again."""
        broken = self.spool.with_name("broken")
        broken.write_text(words) if words else broken.unlink()

    def due(self) -> None:
        """Let the time come at which commands are tried again."""
        self.cluster.sql("UPDATE node_power SET retry_at = now() WHERE retry_at IS NOT NULL")

    def tries(self) -> list[tuple[str, str, int, bool]]:
        query = "SELECT network_address, asked, tries, sent_at IS NOT NULL FROM node_power ORDER BY 1"
        return self.cluster.sql(query)


@pytest.fixture
def cloud(connection: Connection, tmp_path: Path) -> Cloud:
    return Cloud(connection, tmp_path / "spool")


def test_nodes_that_do_not_stand_have_rows_and_no_channel(cloud: Cloud) -> None:
    assert cloud.states() == {"c1": ABSENT, "c2": ABSENT}
    cloud.cluster.settle()
    assert cloud.cluster.sql("SELECT DISTINCT channel FROM nodes") == [("unknown",)]
    assert cloud.most(2) == "nothing"
    job = cloud.cluster.submit("/nodes=1")
    cloud.cluster.plan()
    assert cloud.cluster.verdict(job) == ("resources_down", "its nodes are asleep and have to wake first")
    assert not cloud.spool.exists()
    cloud.cluster.settle()
    assert cloud.cluster.sql("SELECT DISTINCT channel FROM nodes") == [("unknown",)], "it has no address yet"
    cloud.create()
    assert cloud.cluster.state(job) == "Running"
    assert cloud.spool.read_text() == "c1\n"
    assert cloud.cluster.sql("SELECT network_address, host, port FROM nodes ORDER BY 1") == [
        ("c1", "there", 22),
        ("c2", None, None),
    ]


def test_fewer_nodes_are_drained_and_removed_when_idle_and_more_come_back(cloud: Cloud) -> None:
    job = cloud.cluster.submit("/nodes=2")
    cloud.create()
    assert cloud.cluster.state(job) == "Running"
    cloud.most(1)
    assert cloud.states() == {"c1": ALIVE, "c2": ("Alive", True)}
    why = "SELECT away_reason FROM nodes WHERE network_address = 'c2'"
    assert cloud.cluster.sql(why) == [("there are more nodes than elastic.most",)]
    cloud.cluster.end(job)
    cloud.cluster.settle()
    cloud.rest()
    cloud.most(1)
    assert cloud.states()["c2"] == ("Dead", True)
    assert "-c2" in cloud.spool.read_text().split()
    assert cloud.most(3) == "new 1, given up 0"
    assert cloud.states() == {"c1": ABSENT, "c2": ABSENT, "c3": ABSENT}
    both = cloud.cluster.submit("/nodes=3")
    cloud.create()
    assert cloud.cluster.state(both) == "Running"


def test_a_node_that_an_admin_drained_stays_so(cloud: Cloud) -> None:
    cloud.cluster.sql("UPDATE resources SET drain = true WHERE network_address = 'c1'")
    cloud.most(2)
    assert cloud.states()["c1"] == ("Absent", True)


def lose(cloud: Cloud) -> None:
    """Let nobody have reached c1 for an hour."""
    cloud.cluster.sql("UPDATE resources SET state = 'Suspected', state_by = 'monitor' WHERE network_address = 'c1'")
    cloud.cluster.sql("UPDATE resources SET state_since = now() - interval '1 hour' WHERE network_address = 'c1'")


def test_a_lost_node_is_given_up_once_no_job_is_there(cloud: Cloud) -> None:
    job = cloud.cluster.submit("/nodes=1")
    cloud.create()
    assert cloud.cluster.state(job) == "Running"
    lose(cloud)
    assert cloud.most(2) == "nothing", "a job is there"
    cloud.cluster.end(job)
    cloud.cluster.settle()
    lose(cloud)
    assert cloud.most(2) == "new 0, given up 1"
    assert cloud.states()["c1"] == ABSENT
    cloud.energy()
    assert cloud.spool.read_text() == "c1\n-c1\n"


@pytest.mark.parametrize(
    "wrong",
    [{"resources": "/cores"}, {"name": "c d"}, {"properties": ("colour=red",)}, {"resources": "/state={2}"}],
    ids=str,
)
def test_a_template_that_cannot_be_read_adds_nothing(cloud: Cloud, wrong: dict[str, Any]) -> None:
    before = cloud.states()
    assert cloud.most(5, **wrong) == "nothing"
    assert cloud.states().keys() == before.keys()


def test_a_name_that_is_taken_is_no_elastic_node(connection: Connection, tmp_path: Path) -> None:
    cluster = SmallCluster(connection)
    cluster.add_nodes("c1")
    module = ElasticNodes(settings(tmp_path / "spool", 1))
    assert cluster.run(module).word == "nothing"
    assert cluster.sql("SELECT network_address, elastic FROM nodes") == [("c1", False)]


def test_lines_that_tell_no_address_say_nothing() -> None:
    output = "c1 10.0.0.1 2222\nc2 ec2-1.example\ncreating c3\nc4 a b c\nc5 host 70000\nc6 $(reboot)\nc7 h 22x\n"
    assert addresses(output) == {"c1": ("10.0.0.1", 2222), "c2": ("ec2-1.example", None), "creating": ("c3", None)}


def test_a_node_that_could_not_be_deleted_keeps_its_row_until_it_is(cloud: Cloud) -> None:
    job = cloud.cluster.submit("/nodes=2")
    cloud.create()
    cloud.breaks("the bill goes on\n")
    cloud.cluster.end(job)
    cloud.most(0)
    cloud.cluster.settle()
    cloud.rest()
    cloud.most(0)
    asleep = ("Absent", True)
    assert cloud.states() == {"c1": asleep, "c2": asleep}, "both may stand"
    assert cloud.tries() == [("c1", "sleep", 1, False), ("c2", "sleep", 1, False)]
    cloud.due()
    cloud.energy()
    cloud.energy()
    assert cloud.tries() == [("c1", "sleep", 2, False), ("c2", "sleep", 2, False)]
    query = "SELECT hosts, description FROM event_logs WHERE type = 'ENERGY_COMMAND_FAILED' ORDER BY event_id"
    told = [(hosts, text.partition(":")[0], text.rpartition(":")[2]) for hosts, text in cloud.cluster.sql(query)]
    assert told == [
        (["c1", "c2"], "try 1, the next after 5 s", " the bill goes on"),
        (["c1"], "try 2, the next after 10 s", " the bill goes on"),
        (["c2"], "try 2, the next after 10 s", " the bill goes on"),
    ]
    cloud.breaks("")
    cloud.due()
    cloud.energy()
    cloud.most(0)
    assert cloud.states() == {"c1": ("Dead", True), "c2": ("Dead", True)}
    assert cloud.spool.read_text().split()[-2:] == ["-c1", "-c2"]
    assert cloud.tries() == []


def test_a_node_that_could_not_be_created_is_tried_again(cloud: Cloud) -> None:
    cloud.breaks("no room")
    job = cloud.cluster.submit("/nodes=1")
    cloud.create()
    assert cloud.tries()[0] == ("c1", "wake", 1, False)
    assert cloud.cluster.sql("SELECT DISTINCT channel FROM nodes") == [("unknown",)], "nobody logs in where nothing is"
    cloud.breaks("")
    cloud.due()
    cloud.create()
    assert cloud.cluster.state(job) == "Running"
    assert cloud.spool.read_text() == "c1\n"


def test_a_node_that_may_stand_is_still_reached_where_it_stood(cloud: Cloud) -> None:
    job = cloud.cluster.submit("/nodes=2")
    cloud.create()
    reached = "SELECT network_address, host, port FROM nodes ORDER BY 1"
    stood = cloud.cluster.sql(reached)
    assert stood == [("c1", "there", 22), ("c2", "there", 22)]
    cloud.breaks("later")
    cloud.cluster.end(job)
    cloud.cluster.settle()
    cloud.rest()
    assert [row[1:3] for row in cloud.tries()] == [("sleep", 1), ("sleep", 1)]
    assert cloud.cluster.sql(reached) == stood
    cloud.cluster.submit("/nodes=2")
    cloud.create()
    assert [row[1:3] for row in cloud.tries()] == [("wake", 1), ("wake", 1)]
    assert cloud.cluster.sql(reached) == stood


def test_new_orders_come_before_those_that_failed(cloud: Cloud) -> None:
    cloud.breaks("no room")
    cloud.cluster.submit("/nodes=1")
    cloud.create()
    cloud.due()
    cloud.cluster.submit("/nodes=1")
    cloud.cluster.settle()
    rows = power.asked(cloud.cluster.connection)
    assert [(row.node, row.tries, row.due) for row in rows] == [("c2", 0, True), ("c1", 1, True)]


def test_a_node_whose_turn_came_late_is_not_late_at_its_first_failure(cloud: Cloud) -> None:
    cloud.breaks("no room")
    cloud.cluster.submit("/nodes=1")
    cloud.cluster.settle()
    cloud.cluster.sql("UPDATE node_power SET asked_at = asked_at - interval '1 hour' WHERE asked = 'wake'")
    cloud.energy()
    cloud.energy()
    assert cloud.states()["c1"] == ABSENT
    assert cloud.tries()[0] == ("c1", "wake", 1, False)


def test_a_node_that_cannot_be_created_in_time_is_suspected(cloud: Cloud) -> None:
    cloud.breaks("no room")
    cloud.cluster.submit("/nodes=1")
    cloud.create()
    cloud.due()
    cloud.energy()
    assert cloud.tries()[0] == ("c1", "wake", 2, False)
    cloud.cluster.sql("UPDATE node_power SET failed_since = failed_since - interval '1 hour' WHERE asked = 'wake'")
    cloud.energy()
    assert cloud.states()["c1"] == ("Suspected", False)
    ((what,),) = cloud.cluster.sql("SELECT description FROM event_logs WHERE type = 'WAKEUP_NODE_TIMEOUT'")
    assert what.startswith("not woken: 2 tries in 900 s or more failed: ")
    assert what.endswith(": no room")
