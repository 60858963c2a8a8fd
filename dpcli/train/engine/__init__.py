"""Clipped sums of per-example gradients. This package is the only place that bounds the influence of an example on the model.

per_example.py is the engine, and opacus.py the alternative to it. An engine chooses a *method* (choice.py) that computes the gradient of
each example: book-keeping (book_keeping.py, with capture.py, layers.py, compound.py, recurrent.py and operands.py), vmap, or a loop
(vectorised.py). The gradients are *pieces* (pieces.py), of which sums.py adds clipped sums, by the clipping style of clip.py.
"""
