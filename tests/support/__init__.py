"""Helpers for tests of several folders; child interpreters import them too, in ``support.checkout``'s environment."""
