// The line of the user's program that the calling thread is at. Errors and traces name it.
#pragma once

#include "runtime/base/api.h"

namespace mydev {

// Returns "file.py:12 in train" for the calling thread, or "". The string lives as long as the process. The call is
// cheap enough for every asynchronous command. Set once by the Python layer.
using SourceLocator = const char* (*)();
MYDEV_API void set_source_locator(SourceLocator locator) noexcept;
// "" without a locator.
MYDEV_API const char* source_location() noexcept;

// While one lives, `text` is the source location of what this thread submits: a step of a program. The string lives as
// long as the process.
class MYDEV_API SourceLocationScope {
 public:
  explicit SourceLocationScope(const char* text) noexcept;
  ~SourceLocationScope();
  SourceLocationScope(const SourceLocationScope&) = delete;
  SourceLocationScope& operator=(const SourceLocationScope&) = delete;

 private:
  const char* outer_;
};

}  // namespace mydev
