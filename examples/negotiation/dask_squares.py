#!/usr/bin/env python3
"""Dask on one job that grows with the work: ``dask_squares.py --tasks 500 --most 8``. Needs the extra ``dask``.

The workers run on the hosts of the job. When others need hosts, results on them are copied before they are given back.
"""

from __future__ import annotations

import argparse
import time

from distributed import Client, as_completed

from oarpy.negotiation.dask_cluster import NegotiatedCluster


def square(number: int, seconds: float) -> int:
    """Return the square, after some time."""
    time.sleep(seconds)
    return number * number


def main() -> None:
    """Compute squares on a cluster that adapts, and check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=0.25, help="how long a task takes")
    parser.add_argument("--most", type=int, default=8, help="hosts at most")
    parser.add_argument("--address", help="where the hosts reach this program")
    options = parser.parse_args()
    scheduler = {"host": options.address}
    with NegotiatedCluster(scheduler_options=scheduler, quiet=False) as cluster, Client(cluster) as client:
        print(f"OAR_JOB_ID={cluster.job.id}", flush=True)
        cluster.adapt(maximum=options.most, interval="500ms", target_duration="1s")
        squares = client.map(square, range(options.tasks), seconds=options.seconds)
        for done, _ in enumerate(as_completed(squares), 1):
            if done % 25 == 0:
                print(f"{done} of {options.tasks} tasks are done, {len(cluster.observed)} workers", flush=True)
        results = client.gather(squares)
        right = sum(result == number * number for number, result in enumerate(results))
        print(f"{right} of {options.tasks} results are right", flush=True)
    if right != options.tasks:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
