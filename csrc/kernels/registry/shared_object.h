// Opening shared objects of kernels.
#pragma once

#include <string>

namespace mydev {

// nullptr, or why the file cannot be one that dlopen may be given: not ELF for this machine, or shorter than its own
// headers say (which dlopen does not check: reading what is missing kills the process). Throws nothing.
const char* find_elf_fault(const std::string& file);

// Loads XLA's status functions for everyone, unless the process has them: they must be there when a library of kernels
// is opened. Once per process; failure is no error here, the library's own loading then tells what is missing.
void provide_status_functions();

// While one lives, this thread is loading a library: what that looks up must not load others, whose turn it may be on
// another thread.
class Loading {
 public:
  Loading() noexcept;
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  static bool active() noexcept;

 private:
  bool outer_;
};

// RTLD_NOW | RTLD_LOCAL. nullptr: `problem` tells why.
void* open_shared_object(const std::string& file, std::string& problem);

}  // namespace mydev
