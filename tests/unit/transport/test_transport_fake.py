"""The fake transport keeps the promises of the real ones, and its handles do what tests of other parts rely on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.node import NodeAddress
from oarpy.wire.messages import ChannelLost
from tests.harness.fake_transport import FakeTransport
from tests.harness.transport_conformance import FIRST, Conformance
from tests.harness.transport_driver import Driver


@pytest.fixture
def fake() -> Iterator[FakeTransport]:
    inbox = Inbox()
    yield FakeTransport(inbox)
    inbox.close()


@pytest.fixture
def driver(fake: FakeTransport) -> Driver:
    return Driver(fake, NodeAddress("node1", "/nowhere"), Path("/nowhere"), "test", "somebody")


class TestFakeTransport(Conformance):
    def unreachable(self, driver: Driver) -> NodeAddress:
        assert isinstance(driver.transport, FakeTransport)
        driver.transport.node("broken").unreachable = "cannot reach node broken"
        return replace(driver.node, name="broken")


def test_an_end_without_a_channel_is_told_at_the_next_connection(fake: FakeTransport, driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "sleep 600"))
    fake.lose("node1", "cut")
    assert driver.expect(ChannelLost).reason == "cut"
    fake.finish("node1", FIRST, 256)
    driver.connect()
    assert driver.ended(1).status == 256


def test_a_reboot_loses_running_jobs_and_changes_the_incarnation(fake: FakeTransport, driver: Driver) -> None:
    before = driver.connect()
    driver.start(driver.spec(1, "sleep 600"))
    driver.started(1)
    fake.reboot("node1")
    driver.expect(ChannelLost)
    assert driver.connect().incarnation != before.incarnation
    assert driver.ended(1).reason == "lost"


def test_a_node_can_refuse_or_say_nothing(fake: FakeTransport, driver: Driver) -> None:
    driver.connect()
    fake.node("node1").refusal = "NO_SUCH_USER"
    driver.start(driver.spec(1, "exit 0"))
    assert driver.refused(1).reason == "NO_SUCH_USER"
    fake.node("node1").deaf = True
    driver.start(driver.spec(2, "exit 0"))
    assert fake.inbox.drain() == []
    assert fake.node("node1").starts == []
