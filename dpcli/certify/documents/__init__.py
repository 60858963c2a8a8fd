"""The documents of `dpcli certify`."""
