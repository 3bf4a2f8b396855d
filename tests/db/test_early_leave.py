"""``oarsub -I`` whose user goes before the gateway has made a process for the session."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from oarpy.client.caller import Streams
from oarpy.client.jobs import interactive
from oarpy.store.database import Connection
from tests.harness.sample_cluster import add_job

pytestmark = [pytest.mark.db, pytest.mark.kept]


class GoneCaller:
    """Is not there any more when it is to be attached."""

    def __init__(self, loss: type[BaseException]) -> None:
        self.loss = loss

    def attached(self) -> AbstractContextManager[Streams]:
        raise self.loss


@pytest.mark.parametrize("loss", [BrokenPipeError, KeyboardInterrupt])
def test_the_job_is_deleted(
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    loss: type[BaseException],
) -> None:
    monkeypatch.setenv("OARPY_CONFIG", cluster_environment["OARPY_CONFIG"])
    job = add_job(connection, kind="INTERACTIVE")
    monkeypatch.setattr(interactive, "current", lambda: GoneCaller(loss))
    with pytest.raises(loss):
        interactive.run_interactive(job, interactive.silent)
    assert connection.execute("SELECT job_id FROM kill_requests").fetchall() == [(job,)]
