"""`plan`: the assignment of names to mesh axes that a machine finds, by the cost model of `nx.machines` under a bound on memory.

`program` knows the mapped function: which names it has, which of them meet, and how it is traced under another assignment, which is how
every candidate is judged. `meshes` says for which mesh it is planned, `shapes` which sizes its axes may have, `space` which choices there
are, which are the same and which are neighbours; `search` decides what is tried next. `planner` is the face; `result` is what it returns,
`reasons` says why in words, `rendering` prints, and `timing` measures on devices that are there.

Read `space` and `search` first.
"""
