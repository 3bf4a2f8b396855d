"""The context of a call: its broker, its connection and its settings."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.client.caller import KeptReader
from oarpy.configuration import Configuration
from oarpy.store.database import Connection

DOOR = "door"
"""The author of requests to end jobs, on behalf of brokers."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """A broker's presence at the door. ``reader`` is the session's memory of the platform."""

    broker: str
    connection: Connection
    configuration: Configuration
    reader: KeptReader
