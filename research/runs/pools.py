"""The places of runs: this process, a pool of processes, or the workers of a Dask cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from oarpy.model.errors import OarpyError, UsageError
from research.runs.experiment import Parameters, RunFunction, Values

Outcome = tuple[int, Values | str, float]
"""The place of a run, its values or why there are none, and its seconds."""
Pool = Callable[[RunFunction, Sequence[Parameters], Mapping[str, str]], Iterator[Outcome]]


def all_processes() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def local_pool(processes: int) -> Pool:
    """Return a pool of processes of this machine; a single one is this process."""
    if processes == 1:
        return _in_turn
    return partial(_in_processes, processes)


def dask_pool(address: str) -> Pool:
    """Return the workers of a Dask cluster. Raises :class:`UsageError` without the extra ``dask``."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise UsageError("--dask needs the package distributed", hint="pip install 'oarpy-scheduler[dask]'") from None
    return partial(_on_dask, address)


def timed(function: RunFunction, places: Mapping[str, str], numbered: tuple[int, Parameters]) -> Outcome:
    """Do one run; an error becomes its reason."""
    number, run = numbered
    began = time.perf_counter()
    try:
        outcome: Values | str = function(run, places)
    except Exception as error:  # whatever it is, the other runs go on
        outcome = f"{type(error).__name__}: {error}"
    return number, outcome, time.perf_counter() - began


def _in_turn(function: RunFunction, runs: Sequence[Parameters], places: Mapping[str, str]) -> Iterator[Outcome]:
    for numbered in enumerate(runs):
        yield timed(function, places, numbered)


def _in_processes(
    processes: int, function: RunFunction, runs: Sequence[Parameters], places: Mapping[str, str]
) -> Iterator[Outcome]:
    spawning = get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(runs)), spawning, initializer=_end_with_parent) as pool:
        try:
            sent = {pool.submit(timed, function, places, numbered): numbered[0] for numbered in enumerate(runs)}
            for done in as_completed(sent):
                yield _outcome(done, sent[done])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """Have this process end when the one that started it is killed: nobody would keep what it finds."""
    parent = parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()


def _outcome(done: Future[Outcome], number: int) -> Outcome:
    try:
        return done.result()
    except BrokenProcessPool:
        return number, "its process died", 0.0


def _on_dask(
    address: str, function: RunFunction, runs: Sequence[Parameters], places: Mapping[str, str]
) -> Iterator[Outcome]:
    from distributed import Client
    from distributed import as_completed as ended

    try:
        client: Any = Client(address, timeout=30)
    except OSError as error:
        raise OarpyError(f"no Dask scheduler answers at {address}: {error}", hint="--dask ADDRESS") from None
    with client:
        sent = client.map(partial(timed, function, places), list(enumerate(runs)), pure=False)
        for done in ended(sent):
            yield done.result()
