"""Groups of elements along an axis: moving windows, and elements with one label.

`rolling` reduces moving windows, and `reductions` the elements of each label (`group_reduce`).
`scans` has cumulative and lagged operations within groups.
"""
