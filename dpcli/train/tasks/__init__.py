"""The tasks of [train]: classification.py, causal_lm.py, soft_prompt.py and custom.py.

Each has a function `build`, which makes a learning problem (learning.py) of the table: a model, records and a loss. The other modules read
data and models for them. The code about privacy is elsewhere.
"""
