"""Explanations of mistakes. They import `namedax.errors` only, so every other room uses them.

Read `call_errors` first: it compares the arguments of a call with the signature, and
`argument_kinds` with what each parameter takes. `jax_errors` recognizes errors of JAX, which other
rooms explain, and adds notes to them. `tree_differences` describes how the structures of two
pytrees differ, and `layout_names` explains mistakes in layouts. `tracebacks` shortens what an error
shows.

`hints` has typical calls of public functions, and `migration_hints` the words of other libraries.
They are installed by `import namedax`, and loaded with the first message that has a hint.
"""
