"""Makes the device known to other libraries, each in a file of its name; docs/ecosystem.md lists them for users.

If a library has an extension point, it is used. A part of a library that is replaced has the reason, and the condition
of its removal, beside it. Nothing is imported: a library is changed when somebody imports it (compile/registration.py),
if the file knows its version (integration.py) and MYDEV_INTEGRATIONS does not leave it out (registry.py).
"""
