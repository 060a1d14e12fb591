"""Mixtures of experts over named axes.

Read `routing` first: it computes the experts that every token chooses. `mixture` applies experts to
tokens. It sorts the tokens into `slots`, sends the slots between devices, and without
a capacity repeats this in several `rounds`.
"""
