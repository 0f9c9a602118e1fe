// A shared library that is opened by one of several names, and never closed.
#pragma once

#include <span>
#include <string>

#include "cuda_driver/library/cuda_error.h"

namespace mydev::cuda_driver {

class SharedLibrary {
 public:
  // The first of the names that can be opened. Without one, `problem` is what the loader says of each.
  explicit SharedLibrary(std::span<const std::string> names);

  explicit operator bool() const noexcept { return library_ != nullptr; }
  void* symbol(const std::string& name) const;  // nullptr if there is none
  // Finds the function of that name. Raises UNAVAILABLE with what is needed if there is none.
  template <typename Function>
  void find(Function& function, const char* name, const char* needed) const {
    function = reinterpret_cast<Function>(symbol(name));
    require(function != nullptr, MYDEV_UNAVAILABLE, name_, " has no ", name, "; ", needed, " is needed");
  }
  const std::string& problem() const noexcept { return problem_; }

 private:
  void* library_ = nullptr;
  std::string name_, problem_;
};

}  // namespace mydev::cuda_driver
