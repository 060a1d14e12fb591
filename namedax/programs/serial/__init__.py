"""A traced program, executed along one of its axes in steps: how a `SerialLoop` runs.

`stepping` is the way in. `nodes` makes a list of a program, with its calls inlined; `steps` sorts the nodes into passes over the
loop, and runs them; `jaxpr_writer` makes a program of nodes again, without binding any equation anew; `lockstep_control_flow` is control flow that
all steps have to take together.

Read `stepping`, then `nodes`, then `steps`.
"""
