"""Pictures: which device holds what, what is sent, how long it takes, and which layouts there are to choose from.

Figures are matplotlib's, which is imported when one is made, and nothing here touches pyplot. To be read in this order:

- `colours`: the colours of devices and of kinds of steps.
- `words`: lists of devices, numbers of bytes and times, as pictures show them.
- `canvas`: a figure in inches, on which text is measured before it is written; `svg` gives its text.
- `blocks`: which devices hold which block of an array, by its sharding.
- `arrangement`: which dimensions of an array run along the rows and columns of its picture, and which blocks are left out.
- `panels`: an array, or a mesh, as a panel with its captions.
- `arrays`: `draw`, arrays and trees of them.
- `lists`: numbers on a picture, and the list that says what they stand for.
- `traffic`, `timeline`, `front`: what a program sends over a mesh, when it does what, and the layouts that are worth a choice.
"""
