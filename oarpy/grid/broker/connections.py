"""Connections to clusters: a thread for each connection, so that a silent cluster costs the others nothing.

::

    heard  --no answer, or a call that takes long-->  silent: every call is answered so at once
      ^                                                      |
      +---------------- it answers describe -----------------+   asked after 0.5 s, 1 s, ... 15 s
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from oarpy.grid.broker.cluster_answers import checked, cleaned
from oarpy.grid.broker.conversations import CallInLine, ClusterCall
from oarpy.grid.calls.table import CallRefused, Cluster, ClusterSilent, Describe
from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from oarpy.grid.clusters.slurm.cluster import SlurmCluster
from oarpy.model.errors import OarpyError
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.transport.wakeup import WakeupBell

Opening = Callable[[GridClusterRow], Cluster]
"""How a cluster of the table is opened; it connects when it is first asked."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0


def clusters_of(broker: str) -> Opening:
    """Return how a broker with this name ([grid] name) opens clusters."""
    return partial(cluster_of, broker)


def cluster_of(broker: str, row: GridClusterRow) -> Cluster:
    """Return the object that asks a cluster of the table; the broker's jobs there carry its name."""
    if row.kind == "oarpy":
        return OarpyCluster(row.name, row.door)
    if row.kind == "slurm":
        return SlurmCluster(row.name, row.door, broker=broker, refusal=row.refusal_to)
    raise CallRefused(f"cluster '{row.name}' is of kind '{row.kind}', which this broker cannot ask")


def _opened_by(row: GridClusterRow) -> tuple[object, ...]:
    """Return the settings by which a cluster is opened."""
    return row.kind, row.door, row.users


class ClusterConnection:
    """One cluster. Calls are made one after the other, in the order of :meth:`submit`."""

    def __init__(self, row: GridClusterRow, opening: Opening, heard: Callable[[], None]) -> None:
        self.row = row
        self._opening = opening
        self._heard = heard
        self._cluster: Cluster | None = None
        self._calls: queue.SimpleQueue[tuple[ClusterCall, CallInLine] | None] = queue.SimpleQueue()
        self._due: float | None = None
        self._pause = 0.0
        self.reason = ""
        self._thread = threading.Thread(target=self._serve, name=f"cluster {row.name}", daemon=True)
        self._thread.start()

    @property
    def silent(self) -> bool:
        """Whether it does not answer at present."""
        due = self._due
        return bool(self._pause) or (due is not None and time.monotonic() > due)

    def submit(self, call: ClusterCall) -> Future[object]:
        """Have a call made; while the cluster is silent, the answer says so at once."""
        future = CallInLine(lambda: not self.silent)
        if self.silent:
            future.set_exception(ClusterSilent(self.reason or f"cluster '{self.row.name}' does not answer"))
        else:
            self._calls.put((call, future))
        return future

    def close(self) -> None:
        """End the connection, as soon as its present call is over."""
        self._calls.put(None)

    def _serve(self) -> None:
        while True:
            try:
                item = self._calls.get(timeout=self._pause or None)
            except queue.Empty:
                self._ask_again()
                continue
            if item is None:
                break
            call, future = item
            if future.begin():
                self._make(call, future)
        if self._cluster is not None:
            with suppress(OarpyError, OSError):
                self._cluster.close()

    def _make(self, call: ClusterCall, future: Future[object]) -> None:
        """Make a call. If it gets no answer, the calls that wait behind it get none either."""
        if self._pause:
            future.set_exception(ClusterSilent(self.reason))
            return
        self._due = due = time.monotonic() + call.seconds
        try:
            answer = checked(self.row.name, call.made_of(self._open()))
        except ClusterSilent as error:
            self._fall_silent(cleaned(error))
            future.set_exception(error)
        except OarpyError as error:
            future.set_exception(cleaned(error))
        except OSError as error:
            silence = self._unasked(error)
            self._fall_silent(silence)
            future.set_exception(silence)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(answer)
        finally:
            self._due = None
        if time.monotonic() > due and not self._pause:
            self._heard()

    def _open(self) -> Cluster:
        """Return the cluster, opened at its first call; a failure to open it counts as silence."""
        if self._cluster is None:
            try:
                self._cluster = self._opening(self.row)
            except OarpyError:
                raise
            except Exception as error:
                raise self._unasked(error) from error
        return self._cluster

    def _unasked(self, error: Exception) -> ClusterSilent:
        return ClusterSilent(f"cluster '{self.row.name}' cannot be asked: {error!a}")

    def _fall_silent(self, error: Exception) -> None:
        self.reason = str(error) or "no answer"
        self._pause = min(self._pause * 2, _LONGEST_PAUSE) if self._pause else _FIRST_PAUSE

    def _ask_again(self) -> None:
        """Ask a silent cluster for its description. After any error it counts as silent and is asked again."""
        try:
            checked(self.row.name, self._open().ask(Describe()))
        except ClusterSilent as error:
            self._fall_silent(cleaned(error))
            return
        except OarpyError as error:
            self.reason = str(cleaned(error))  # it answers
        except Exception as error:
            self._fall_silent(self._unasked(error))
            return
        self._pause = 0.0
        self._heard()


class ClusterConnections:
    """The connections of a module: one to each cluster, and another for calls that wait, once there are such calls.

    ``opening`` opens clusters: tests give theirs.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._connections: dict[tuple[str, bool], ClusterConnection] = {}
        self._bell = WakeupBell()

    def adopt(self, rows: Sequence[GridClusterRow]) -> None:
        """Follow the table of clusters: open new clusters, and open a cluster again whose door or users changed."""
        wanted = {row.name: row for row in rows}
        for (name, waits), connection in list(self._connections.items()):
            row = wanted.get(name)
            if row is None or _opened_by(row) != _opened_by(connection.row):
                self._connections.pop((name, waits)).close()
        for row in rows:
            if (row.name, False) not in self._connections:
                self._open(row, waits=False)

    def submit(self, call: ClusterCall) -> Future[object]:
        """Have a call made by a thread of its cluster, without waiting for it."""
        connection = self._connections.get((call.cluster, False))
        if connection is None:
            future: Future[object] = Future()
            future.set_exception(CallRefused(f"there is no cluster '{call.cluster}'", hint="oargridctl clusters"))
            return future
        if call.waits:
            connection = self._connections.get((call.cluster, True)) or self._open(connection.row, waits=True)
        return connection.submit(call)

    def _open(self, row: GridClusterRow, *, waits: bool) -> ClusterConnection:
        self._connections[row.name, waits] = connection = ClusterConnection(row, self._opening, self._wake)
        return connection

    def silent(self) -> Mapping[str, str]:
        """Return the clusters that do not answer at present, with why."""
        return {name: connection.reason for (name, _), connection in self._connections.items() if connection.silent}

    def files(self) -> Sequence[int]:
        """Return a descriptor that is readable when a silent cluster answers again, until :meth:`quiet`."""
        return (self._bell.fileno(),)

    def quiet(self) -> None:
        """Take note that silent clusters have answered."""
        self._bell.quiet()

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _wake(self) -> None:
        self._bell.ring()
