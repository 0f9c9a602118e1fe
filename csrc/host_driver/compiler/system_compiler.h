// The machine's C++ compiler, as a device's kernel compiler: found once, run as a process of its own, no shell between.
//
// $CXX, which may have arguments, or else the first of c++, g++ and clang++ in $PATH. Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mydev::host_driver {

struct SystemCompiler {
  std::vector<std::string> command;  // the program's path, then arguments that come before all others
  std::string identity;              // changes with the compiler, its version, and the processor that it compiles for
};

// nullptr on a machine without one. Starts no process.
const SystemCompiler* system_compiler();

// Makes a shared library of a source file, and writes the compiler's messages beside it. `target` is the value of the
// macro MYDEV_KERNEL_TARGET. `options` are words, which come behind the flags. Raises INVALID_ARGUMENT with the first
// lines of its messages, UNAVAILABLE if it cannot be run.
void compile_library(const SystemCompiler& compiler, const std::filesystem::path& source, const std::string& target,
                     const std::string& options, const std::filesystem::path& library);

// The flags that come before `options`.
const std::vector<std::string>& compiler_flags();

}  // namespace mydev::host_driver
