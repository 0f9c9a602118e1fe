// Where in the user's program the calling thread is: what errors and traces name.
#pragma once

namespace mydev {

// Gives "file.py:12 in train" for the calling thread, or "": a text that lives as long as the process. Cheap enough for
// every asynchronous command. Set once by the Python layer.
using SourceLocator = const char* (*)();
void set_source_locator(SourceLocator locator) noexcept;
// "" without a locator.
const char* source_location() noexcept;

// While one lives, what this thread submits comes from `text`, which lives as long as the process: a step of a program.
class SourceLocationScope {
 public:
  explicit SourceLocationScope(const char* text) noexcept;
  ~SourceLocationScope();
  SourceLocationScope(const SourceLocationScope&) = delete;
  SourceLocationScope& operator=(const SourceLocationScope&) = delete;

 private:
  const char* outer_;
};

}  // namespace mydev
