"""Graph500: a Kronecker graph, its construction, breadth-first search and shortest paths, as specified."""
