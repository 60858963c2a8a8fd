"""The command `dpcli release`."""
