"""The command line. Click is used here and in the commands/ folders of features, and nowhere else."""
