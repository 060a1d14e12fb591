"""Execution of a traced jaxpr in steps along a mesh axis, for `SerialLoop`.

`stepping` is the entry point. `nodes` converts a jaxpr to a list of nodes, with its calls inlined.
`steps` sorts the nodes into passes over the loop, and runs them. `jaxpr_writer` converts nodes back
to a jaxpr, without binding any equation again. `lockstep_control_flow` handles control flow that
all steps have to execute together.

Read `stepping`, then `nodes`, then `steps`.
"""
