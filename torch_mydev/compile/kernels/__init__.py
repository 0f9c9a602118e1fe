"""torch.compile for drivers with a kernel compiler: Inductor with a code generator of ours, and the driver's compiler.

From the bottom up:

- types.py, printer.py and operators.py say expressions in the kernels' language, a small C that csrc/kernels/language
  makes C++, OpenCL C and CUDA C.
- accumulators.py, loops.py and kernel.py make functions of them. scheduling.py has what Inductor calls for that.
- library.py compiles and launches, recorded_graph.py replays.
- backend.py is torch.compile's backend.
"""
