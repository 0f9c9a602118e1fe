// Where in the user's program the calling thread is: what errors and traces name.
#pragma once

#include <string>

namespace mydev {

// Gives "file.py:12 in train" for the calling thread, or "". Set once by the Python layer.
using SourceLocator = std::string (*)();
void set_source_locator(SourceLocator locator) noexcept;
// "" without a locator.
std::string source_location();

}  // namespace mydev
