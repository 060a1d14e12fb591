"""Pictures of the placement of arrays, of communication, of timelines, and of the layouts to choose from.

Figures are matplotlib figures. Matplotlib is imported when a figure is made, and pyplot is never used. Read the modules in this
order:

- `colours`: the colors of devices and of kinds of steps.
- `words`: lists of devices, numbers of bytes and times, as text in pictures.
- `canvas`: a figure in inches, on which text is measured before it is drawn; `svg` returns its text.
- `blocks`: the devices of each block of an array, according to its sharding.
- `arrangement`: the dimensions of an array along the rows and columns of its picture, and the blocks that are left out.
- `panels`: an array, or a mesh, as a panel with its captions.
- `arrays`: `draw`, for arrays and trees of them.
- `lists`: numbers in a picture, and the list that explains them.
- `traffic`, `timeline`, `front`: the communication of a program over a mesh, its timeline, and the Pareto-optimal layouts.
"""
