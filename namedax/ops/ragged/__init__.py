"""Rows of different lengths over named axes.

Read `ragged` first: `Ragged` holds the tokens of all rows, concatenated. `rows` validates rows,
finds the row of each token, and reduces by row. `packing` converts lists and padded arrays to
tokens, and tokens to padded arrays. `grouped` contracts tokens with the weights of their groups,
and exchanges tokens between devices.
"""
