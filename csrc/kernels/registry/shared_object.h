// Opening shared objects of kernels.
#pragma once

#include <string>

namespace mydev {

// Returns nullptr, or why dlopen must not be given the file: it is not ELF for this machine, or shorter than its own
// headers say. dlopen does not check the latter: reading what is missing kills the process. Throws nothing.
const char* find_elf_fault(const std::string& file);

// Loads XLA's status functions for everyone, unless the process has them: they must be there when a library of kernels
// is opened. Once per process. Failure is no error here: loading the library then reports what is missing.
void provide_status_functions();

// While one of these lives, this thread is loading a library. A lookup by that library must not load others, which
// another thread may be loading.
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

// Opens with RTLD_NOW | RTLD_LOCAL. If it returns nullptr, `problem` says why.
void* open_shared_object(const std::string& file, std::string& problem);

}  // namespace mydev
