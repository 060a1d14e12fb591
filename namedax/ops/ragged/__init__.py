"""Rows of different lengths by name.

Read `ragged` first: `Ragged`, which holds all tokens of all rows one after the other. `rows` says what row a token belongs to, and
reduces by row; `checks` says what may be rows; `packing` makes tokens of lists and of padded arrays, and padded arrays of tokens. `grouped`
contracts tokens with the weights of their groups, and `token_moves` brings them to the devices that have these.
"""
