"""Execution of a traced jaxpr in steps along a mesh axis, for `SerialLoop`.

`stepping` is the entry point, and differentiates. `nodes` converts a jaxpr to a list of nodes, with
its calls inlined. `plan` sorts the nodes into passes over the loop. `steps` runs a plan. It uses
the rules of `collectives` for collectives over the loop's axis, and `jaxpr_writer`, which converts
nodes back to the jaxpr of a step, without binding any equation again. `operations` evaluates the
few nodes that have no equation to copy.

Read `stepping`, then `nodes`, `plan` and `steps`.
"""
