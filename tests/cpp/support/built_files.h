// Drivers and libraries of kernels that were built for tests. Found from where the test program lies, so that its
// object file does not depend on where it was built.
#pragma once

#include <filesystem>
#include <string>

namespace mydev {

// For example built_file("drivers/broken_driver.so").
inline std::string built_file(const std::string& name) {
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (tests / ".." / ".." / name).lexically_normal().string();
}

}  // namespace mydev
