"""Hints in messages: replacements for other libraries' functions, and typical calls.

Modules that raise errors cannot import the public functions, which are above them. They get the
hints by `errors.hints`; the package installs them by `errors.install_hints`, and imports this room
for the first message that contains a hint.

`migration` has the attributes and functions of other libraries, writes typical calls of public
functions, and binds the hints to the package.
"""
