"""What is said of a node whose Python ends before it has read its program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oarpy.transport import probing
from oarpy.transport.node import ChannelConfig, NodeAddress, NodeMode, SshConfig


class GoneStream:
    """A connection over which nothing can be written any more."""

    def write(self, content: bytes) -> None:
        raise OSError("Socket is closed")

    def read(self) -> bytes:
        return b""

    def finish(self) -> str:
        return "the agent ended: sh: 1: /no/python: not found"


class GoneConnector:
    def __init__(self, *arguments: Any) -> None:
        pass

    def open(self, *arguments: Any) -> GoneStream:
        return GoneStream()


def test_why_it_ended_is_told_and_not_that_nothing_could_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(probing, "SshConnector", GoneConnector)
    node = NodeAddress("node1", str(tmp_path), NodeMode.SSH, "127.0.0.1", 22, "/no/python")
    found = probing.probe([node], ChannelConfig(), SshConfig("oarpy", "key", "known_hosts"))["node1"]
    assert found.error == "node node1: the agent ended: sh: 1: /no/python: not found"
