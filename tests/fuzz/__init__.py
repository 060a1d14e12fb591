"""Random programs over names, in random layouts, against an interpreter that knows nothing of namedax.

`values` is what a value is to the interpreter, `program` what a program is; the modules `ops_*` say of every operation how it is drawn, how
it is written with namedax, and what it means; `generator` draws programs, `layouts` draws where and how they run, `source` writes a program
down as Python for a layout, with what `helpers` has; `runner` runs and compares (what is sent, with `predictions`), `shrink` makes a failure
small, `specimens` are programs that once failed, `test_planted` has faults that must be found. `make fuzz` runs `python -m tests.fuzz`.
"""
