"""Which ids several parties have in common, without any of them showing the others the rest."""

# Nothing is imported here: the processes that share the arithmetic import `curve` alone and start at once.
