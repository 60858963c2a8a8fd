"""Private training on torch. It performs the training that a pipeline file declares, and refuses a file that it cannot perform.

A run goes through the folders in this order. commands/ read the arguments, plan/ the file, and tasks/ the data and the model. isolation/
checks that the model keeps records apart. run/ charges the ledger, and step/ takes the steps. In each step, sampling/ draws the batch,
engine/ clips and sums the gradients, and noise.py draws the noise. run/ then writes the results, documents/ describe them, and trained/
uses the model. loop/ is for loops of the user's own, watch/ for loops of other libraries, and replay/ for audits. engine/ and isolation/
know nothing of files and ledgers.
"""
