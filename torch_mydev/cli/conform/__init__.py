"""The command ``conform``: suites that hold a device against what it must do, from the installed package."""
