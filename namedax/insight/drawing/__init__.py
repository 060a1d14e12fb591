"""Pictures of the placement of arrays, of communication, of timelines, and of layouts.

Figures are matplotlib figures. Matplotlib is imported when a figure is made, and pyplot is never
used. Read the modules in this order:

- `canvas`: a figure in inches, on which text is measured before it is drawn; colors; times as text;
  and the lists, legends and numbers of a picture.
- `arrangement`: the devices of each block of an array, and the dimensions along the rows and
  columns of its picture.
- `arrays`: `draw`, for arrays and trees of them, each in a panel with its captions.
- `traffic`: the communication of a program over a mesh.
- `timeline`: the timeline of a program, and the schedule of a pipeline, by stage.
- `front`: the layouts of a plan by time and memory, with the Pareto-optimal ones.
"""
