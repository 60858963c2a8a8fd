"""The plan of a training run: the keys of [train], and the stages, the noise and the cost that follow from a file.

settings*.py and clipping.py have the keys, plan.py and stages.py the plan. Nothing here imports torch.
"""
