"""What tests of several folders use; child interpreters import it too, in the environment of ``support.checkout``."""
