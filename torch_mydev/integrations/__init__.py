"""What other libraries are told about the device, each in a file of its name: docs/ecosystem.md lists it for users.

A library's own extension point is used where it has one; what is replaced of a library has its reason and the condition
of its removal beside it. Nothing is imported: a library is told when somebody imports it (compile/registration.py), if
its version is one that the file knows (integration.py) and MYDEV_INTEGRATIONS does not leave it out (registry.py).
"""
