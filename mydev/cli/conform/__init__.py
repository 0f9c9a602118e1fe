"""``mydev conform``: the conformance suites, each case in a process of its own."""
