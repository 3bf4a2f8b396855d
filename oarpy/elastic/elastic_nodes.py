"""The module that keeps as many elastic nodes as ``elastic.most`` says, and has lost ones deleted.

It changes rows alone, in one transaction a run: the module ``energy`` runs the commands of the site.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog

from oarpy.client.platform import resource_creation
from oarpy.client.platform.resource_creation import Creation
from oarpy.client.session import Session
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError
from oarpy.modules.loop.module import Outcome
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.platform import elastic

log = structlog.get_logger()

_ITSELF = "oarpy"
"""Who adds the resources of elastic nodes."""


class ElasticNodes:
    """Makes the rows of elastic nodes by a template, and gives up nodes that are lost."""

    name = "elastic"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.energy
        self._configuration = configuration
        self._refused = ""
        """Why the template was refused last."""

    def files(self) -> Sequence[int]:
        """Return nothing: time and notifications are the reasons to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Compare the rows with the template, then give up nodes that have been lost for long."""
        if not self._configuration.energy.active:
            return Outcome("energy saving is off, or has no commands")
        template = self._configuration.elastic
        wanted = [f"{template.name}{number + 1}" for number in range(template.most)]
        added = self._added(connection, wanted)
        with connection.transaction():
            elastic.fit(connection, wanted)
            lost = elastic.give_up(connection, self._configuration.energy.wakeup_timeout)
            if lost:
                notifications.tell(connection, "energy")
        return Outcome(f"new {len(added)}, given up {len(lost)}" if added or lost else "nothing")

    def _added(self, connection: Connection, wanted: Sequence[str]) -> list[str]:
        """Add the nodes that are missing; a template that is refused is logged once, and nothing is added."""
        known = elastic.names(connection)
        if not (missing := [name for name in wanted if name not in known]):
            return []
        settings = self._configuration.elastic
        session = Session(connection, self._configuration, _ITSELF, 0, is_admin=True)
        pattern = settings.pattern(",".join(missing))
        try:
            with connection.transaction():
                resource_creation.create(session, Creation(pattern, transport="ssh", assignments=settings.properties))
                elastic.begin(connection, missing)
        except OarpyError as error:
            if str(error) != self._refused:
                log.error("elastic nodes refused", reason=str(error))
            self._refused = str(error)
            return []
        self._refused = ""
        return missing
