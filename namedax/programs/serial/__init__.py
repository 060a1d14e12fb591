"""A traced program, executed along one of its axes in steps."""
