"""Reductions as they stand at the top level, where the axis of an array that has names and no positional axis cannot be left out.

In `nx.numpy` it can, as in JAX: there `axis=None` is the default, and means all positional axes, of which there are none then. At the top
level that is an error, which offers `axis=...` and the names.
"""

from __future__ import annotations

from namedax.namespaces import forms
from namedax.operands.axes import axis_said
from namedax.ops.reduction import reductions
from namedax.ops.sorting import sorting
from namedax.ops.statistics import statistics

sum = axis_said(reductions.sum)
mean = axis_said(reductions.mean)
prod = axis_said(reductions.prod)
max = axis_said(reductions.max)
min = axis_said(reductions.min)
any = axis_said(reductions.any)
all = axis_said(reductions.all)
count_nonzero = axis_said(reductions.count_nonzero)
argmax = axis_said(reductions.argmax)
argmin = axis_said(reductions.argmin)
var = axis_said(forms.var)
std = axis_said(forms.std)
logsumexp = axis_said(forms.logsumexp)
median = axis_said(sorting.median)
quantile = axis_said(forms.quantile)
percentile = axis_said(forms.percentile)
nansum = axis_said(statistics.nansum)
nanprod = axis_said(statistics.nanprod)
nanmean = axis_said(statistics.nanmean)
nanvar = axis_said(forms.nanvar)
nanstd = axis_said(forms.nanstd)
nanmax = axis_said(statistics.nanmax)
nanmin = axis_said(statistics.nanmin)
nanargmax = axis_said(statistics.nanargmax)
nanargmin = axis_said(statistics.nanargmin)
nanmedian = axis_said(sorting.nanmedian)
nanquantile = axis_said(forms.nanquantile)
nanpercentile = axis_said(forms.nanpercentile)
ptp = axis_said(statistics.ptp)
average = axis_said(statistics.average)
norm = axis_said(statistics.norm)
