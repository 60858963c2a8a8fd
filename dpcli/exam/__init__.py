"""The exam: tests of any registered mechanism type, accountant, filter or output format. Run it by python -m dpcli.exam NAME.

It is written for authors of plugins, and dpcli's own types take it too. Nothing in it depends on the name of a type.

* Mechanism types: bounds on delta are compared with an enumeration of the releases that an entry allows (`enumeration/`), under every
  adjacency and sampling scheme. The views of a mechanism must not contradict each other, and the laws of any mechanism must hold.
* Accountants: no answer may contradict an enumeration.
* Filters: the laws of any privacy filter must hold.
* Formats: no part of a document that a format declares may be left out.

Each exam also plants bugs in what it examines, and reports the bugs that it does not detect.
"""
