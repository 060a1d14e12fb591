"""Mixtures of experts by name.

Read `routing` first: which experts every token chooses. `mixture` brings tokens and experts together: tokens are sorted into `slots`,
the slots travel between devices (`exchange`), and without a capacity there are several `rounds`.
"""
