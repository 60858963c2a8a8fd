"""Private training on torch. It performs the training that a pipeline file declares, and refuses a file that it cannot perform."""
