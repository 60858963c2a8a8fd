"""The check that a *program*, which is a model with its loss, isolates records: each record's loss depends on that record alone.

`rehearsal.check_isolation` is the whole check. It follows the program operator by operator without records (traced_program.py, tracker.py,
with the rules in operators.py and moves.py), runs it on synthetic records (synthetic_records.py), and compares the state before and after
(kept_state.py). checked_sums.py adds a check in real steps.
"""
