// For code that itself runs as work of a stream, which others may be waiting for.
#pragma once

namespace mydev {

// While one lives, this thread, out of memory, waits for no stream and gives back no segment but raises
// RESOURCE_EXHAUSTED at once.
class NoReclaim {
 public:
  NoReclaim() noexcept;
  ~NoReclaim();
  NoReclaim(const NoReclaim&) = delete;
  NoReclaim& operator=(const NoReclaim&) = delete;

  static bool active() noexcept;
};

}  // namespace mydev
