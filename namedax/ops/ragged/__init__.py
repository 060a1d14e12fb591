"""Rows of different lengths over named axes.

Read `ragged` first: `Ragged` holds the tokens of all rows, concatenated. `rows` finds the row of
each token, and reduces by row. `checks` validates rows. `packing` converts lists and padded arrays
to tokens, and tokens to padded arrays. `grouped` contracts tokens with the weights of their groups,
and `token_moves` moves tokens to the devices that have these weights.
"""
