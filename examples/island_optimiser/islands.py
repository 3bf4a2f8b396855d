"""A process: an island on which individuals have children with their neighbours.

Who is a neighbour is told by a topology, the size of a process: an iteration takes longer where there are more
neighbours. Each individual wants another mixture of the objectives, and keeps a child that serves it better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from oarpy.examples.island_optimiser.dtlz6 import VARIABLES, Values, nondominated, objectives

Edges = NDArray[np.int64]
"""Pairs of an individual and its neighbour, by the individual."""

ARCHIVE = 64
"""Points that islands pass on at most."""


def _both_ways(one_way: Edges) -> Edges:
    """Return the pairs and their reverses, each pair once, none of an individual with itself."""
    there = one_way[one_way[:, 0] != one_way[:, 1]]
    return np.asarray(np.unique(np.vstack([there, there[:, ::-1]]), axis=0))


def regular(count: int, random: np.random.Generator) -> Edges:
    """Return a grid of two dimensions without edges of its own: four neighbours each."""
    width = int(np.sqrt(count))
    place = np.arange(count)
    return _both_ways(np.vstack([np.column_stack([place, (place + step) % count]) for step in (1, width)]))


def scale_free(count: int, random: np.random.Generator) -> Edges:
    """Return a graph in which those with many neighbours get more: two new pairs for each individual."""
    ends = [0, 1]
    pairs = [(0, 1)]
    for new in range(2, count):
        for old in random.choice(ends, size=2):
            pairs.append((new, int(old)))
            ends += [new, int(old)]
    return _both_ways(np.array(pairs))


def small_world(count: int, random: np.random.Generator) -> Edges:
    """Return a ring with eight neighbours on each side, of which a tenth is anywhere instead."""
    place = np.arange(count)
    pairs = np.vstack([np.column_stack([place, (place + step) % count]) for step in range(1, 9)])
    moved = random.random(len(pairs)) < 0.1
    pairs[moved, 1] = random.integers(0, count, np.count_nonzero(moved))
    return _both_ways(np.vstack([pairs, np.column_stack([place, (place + 1) % count])]))


def anywhere(count: int, random: np.random.Generator) -> Edges:
    """Return a random graph: about twenty neighbours each, and one on a ring, so that nobody is alone."""
    place = np.arange(count)
    pairs = random.integers(0, count, (10 * count, 2))
    return _both_ways(np.vstack([pairs, np.column_stack([place, (place + 1) % count])]))


TOPOLOGIES: Mapping[str, Callable[[int, np.random.Generator], Edges]] = {
    "regular": regular,
    "scale-free": scale_free,
    "small-world": small_world,
    "random": anywhere,
}


def evolve(topology: str, individuals: int, iterations: int, archive: Values, seed: tuple[int, int]) -> Values:
    """Return the best points of an island that begins with an archive; equal arguments give equal points."""
    random = np.random.default_rng(seed)
    edges = TOPOLOGIES[topology](individuals, random)
    begins = np.searchsorted(edges[:, 0], np.arange(individuals))
    wanted = random.dirichlet(np.ones(objectives(np.zeros((1, VARIABLES))).shape[1]), individuals)
    points = random.random((individuals, VARIABLES))
    known = archive[:individuals]
    points[random.permutation(individuals)[: len(known)]] = known
    values = objectives(points)
    for _ in range(iterations):
        # the neighbour that serves an individual best becomes its mate
        serves = np.max(wanted[edges[:, 0]] * values[edges[:, 1]], axis=1)
        mates = edges[np.lexsort((serves, edges[:, 0]))[begins], 1]
        children = _children(points, points[mates], random)
        found = objectives(children)
        better = np.max(wanted * found, axis=1) < np.max(wanted * values, axis=1)
        points[better], values[better] = children[better], found[better]
    return merged(points)


def _children(parents: Values, mates: Values, random: np.random.Generator) -> Values:
    """Return a child of each pair: between them or a little beyond, with a variable in twelve changed."""
    share = random.uniform(-0.5, 1.5, parents.shape)
    children = parents + share * (mates - parents)
    changed = random.random(parents.shape) < 1 / parents.shape[1]
    children[changed] += random.normal(0, 0.1, np.count_nonzero(changed))
    return np.clip(children, 0, 1)


def merged(*archives: Values) -> Values:
    """Return the best points of archives, spread over the curve if there are too many."""
    points = np.unique(np.vstack(archives), axis=0)
    values = objectives(points)
    best = nondominated(values)
    points, values = points[best], values[best]
    along = np.argsort(values[:, -1], kind="stable")
    if len(points) > ARCHIVE:
        along = along[np.linspace(0, len(points) - 1, ARCHIVE).astype(int)]
    return np.asarray(points[along])
