// For code that runs as work of a stream that others may be waiting for.
#pragma once

namespace mydev {

// While one lives, this thread raises RESOURCE_EXHAUSTED at once if it is out of memory. It waits for no stream and
// gives back no segment.
class NoReclaim {
 public:
  NoReclaim() noexcept;
  ~NoReclaim();
  NoReclaim(const NoReclaim&) = delete;
  NoReclaim& operator=(const NoReclaim&) = delete;

  static bool active() noexcept;
};

}  // namespace mydev
