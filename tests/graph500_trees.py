"""Trees on small Kronecker graphs, whole on every rank, and ways to spoil them."""

import numpy as np

from ridgeline.bench.graph500 import construct, generator
from ridgeline.bench.graph500.generator import choose_roots
from ridgeline.bench.graph500.graph import VertexBlocks
from ridgeline.bench.graph500.graph500_options import SEEDS
from ridgeline.bench.graph500.input_edges import InputEdges

SCALE = 8


class SmallGraph:
    """Edges of all ranks, this rank's graph and the view of the validation, and a root."""

    def __init__(self, comm, scale=SCALE, edge_factor=4, columns=1):
        self.comm = comm
        self.blocks = VertexBlocks(1 << scale, comm.size)
        self.edges = generator.generate(comm, scale, edge_factor)
        self.inputs = InputEdges(comm, self.edges)
        self.graph = construct.construct(comm, self.edges, columns)
        (self.root,) = choose_roots(comm, self.blocks, self.inputs.joined(), 1, SEEDS)
        parts = [self.edges.start, self.edges.end, self.edges.weight]
        self.start, self.end, self.weight = (np.concatenate(comm.allgather(part)) for part in parts)
        self.pairs = set(zip(self.start.tolist(), self.end.tolist()))
        self.pairs |= {(v, u) for u, v in self.pairs}

    def whole(self, owned):
        """The values of all vertices."""
        return np.concatenate(self.comm.allgather(owned))

    def owned(self, whole):
        """This rank's values."""
        first = self.blocks.first(self.comm.rank)
        return np.ascontiguousarray(whole[first : first + self.blocks.count(self.comm.rank)])

    def levels(self, parents):
        """Levels of all vertices, by walking up; -1 outside."""
        levels = np.full(parents.size, -1)
        for v in np.flatnonzero(parents >= 0):
            at, levels[v] = v, 0
            while at != self.root:
                at, levels[v] = parents[at], levels[v] + 1
        return levels

    def inside(self, parents):
        """Input edges with both ends in the tree."""
        return int(np.sum((parents[self.start] >= 0) & (parents[self.end] >= 0)))

    def weights_between(self, u, v):
        """Weights of the input edges that join two vertices."""
        there = ((self.start == u) & (self.end == v)) | ((self.start == v) & (self.end == u))
        return self.weight[there]


def parent_changed(case, parents):
    """A vertex gets a parent of the right level that no edge joins to it."""
    levels = case.levels(parents)
    for v in np.flatnonzero(levels == 2):
        for other in np.flatnonzero(levels == 1):
            if (v, other) not in case.pairs:
                parents[v] = other
                return v
    raise AssertionError("no vertex to spoil")


def level_skipped(case, parents):
    """A vertex without children hangs below a neighbour of its own level, though one above is there."""
    levels = case.levels(parents)
    for u, v in sorted(case.pairs):
        if u != v and levels[u] == levels[v] > 0 and u not in parents:
            parents[u] = v
            return u
    raise AssertionError("no vertex to spoil")


def edge_invented(case, parents):
    """A vertex that nothing joins to the root gets it as its parent."""
    v = np.flatnonzero(parents < 0)[-1]
    parents[v] = case.root
    return v


def left_out(case, parents):
    """A vertex without children is not reached."""
    v = next(v for v in np.flatnonzero(parents >= 0)[::-1] if v not in parents)
    parents[v] = -1
    return v


def hanging(case, parents):
    """A vertex with children is not reached."""
    v = next(v for v in np.unique(parents[parents >= 0]) if v != case.root)
    parents[v] = -1
    return v


def cycle(case, parents):
    """Two vertices are each other's parents."""
    v = next(v for v in np.flatnonzero(case.levels(parents) == 2))
    parents[parents[v]] = v
    return v, parents[v]


def own_parent(case, parents):
    """A vertex is its own parent, and is not the root."""
    v = next(v for v in np.flatnonzero(parents >= 0) if v != case.root and v not in parents)
    parents[v] = v
    return v


def root_below(case, parents):
    """The root has another vertex as its parent."""
    parents[case.root] = next(v for v in np.flatnonzero(parents >= 0) if v != case.root)
    return case.root


def no_vertex(case, parents):
    """A parent is beyond the last vertex."""
    v = np.flatnonzero(parents >= 0)[0]
    parents[v] = parents.size
    return v


FAULTS = {
    parent_changed: "has the parent",
    level_skipped: "differ by at most one",
    edge_invented: "no input edge joins them",
    left_out: "was not reached, although",
    hanging: "was not reached",
    cycle: "cycle",
    own_parent: "cycle",
    root_below: "not itself",
    no_vertex: "is not a vertex",
}
