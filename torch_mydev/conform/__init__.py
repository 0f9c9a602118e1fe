"""Conformance suites that run from the installed package: whether a device does what PyTorch's CPU does.

What the command line calls (``mydev conform``) and what the project's own tests import: one harness for both.
"""
