"""Private steps in the user's own training loop. The run is that of `dpcli train`, but the caller takes each step.

private.py is the interface, steps.py keeps the order of the calls, and guard.py and marks.py detect changes between two steps.
"""
