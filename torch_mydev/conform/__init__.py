"""Conformance suites that run from the installed package: whether a device does what PyTorch's CPU does.

The command line (``mydev conform``) and the project's own tests use the same harness.
"""
