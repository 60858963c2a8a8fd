"""The steps of DP-SGD: their preparation (prepare.py), the noisy gradient (loop.py), and the optimizers (optimizers.py)."""
