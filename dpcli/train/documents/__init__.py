"""The documents that the commands of training print, and the privacy statement of a run."""
