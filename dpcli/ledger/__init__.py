"""The ledger of a dataset: its charged runs in a hash chain, whose costs a privacy filter adds up.

The words that the files of this folder share:

* *run*: one execution of a pipeline file on the dataset (charges/ledger_run.py). It is *charged* before its noise is drawn, either at once
  ("spend") or in steps: "reserve" charges it in full, "start" permits its noise, "commit" records its end. A reservation can be *voided*
  until it starts or expires, and is then refunded. The *key* is the name of a run; a repeated request under one key is charged once.
* *entry*, *chain*, *head*: every change is an entry, which is appended and never changed. It contains the hash of the entry before it. The
  head is the number and the hash of the last entry (chain.py). The *state* is what the entries add up to (state.py).
* *terms*, *cap*: the opening entry fixes the terms (terms.py). The cap is the epsilon and delta that all runs together may cost one *unit*,
  such as a user. Only its epsilon can be *amended*.
* *filter*, *currency*, *amount*: the filter is a theorem that adds up the costs of runs even if a run was chosen from the outputs of
  earlier ones (filters/filter.py). Costs and caps are *amounts* by name in its currency, such as {"rho": 0.1}. In *declared mode* there is
  no filter, because all runs are fixed at the opening (filters/declared_set.py).
* *block*, *window*: a dataset may be cut into blocks, such as days (blocks/family.py). Each has a cap of its own. A run is charged on every
  block of its window. The *fullest* block is the one with the largest used share of its cap.
* *quota*, *proposal*: a quota limits what a person or a team may charge. In a *two-person* ledger a change of the cap, a quota or the like
  is only a proposal until another person approves it (governance/).
* *store*, *definitions*: a store keeps the entries, in a file or in PostgreSQL (stores/). Its definitions are the tables, triggers and SQL
  functions that guard them.
* *checkpoint*, *anchor*: a checkpoint holds the state at some entry, so that a reader need not begin at the first one (checkpoint.py). An
  anchor is a head that someone keeps outside of the ledger, to notice a restored backup (verify.py).
"""
