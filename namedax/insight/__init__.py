"""Findings about a program: its communication, its layouts, its times.

`analysis` is behind `nx.explain`, `planning` behind `nx.plan`, `profiling` behind `nx.profile`,
`drawing` behind `nx.draw` and the pictures of reports, and `transfers` behind `nx.transfer`. They
use the public modules `namedax.hlo` and `namedax.machines`; read `analysis` first.
"""
