"""What tests of several rooms use; child interpreters import it too, in the environment of ``support.checkout``."""
