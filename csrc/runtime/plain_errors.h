// Errors as mydev::Error, whatever raiser a layer above has installed (runtime/status.h).
#pragma once

namespace mydev {

// While one lives, what this thread raises is an Error: for code that turns it into a code and a message.
class PlainErrors {
 public:
  PlainErrors() noexcept;
  ~PlainErrors();
  PlainErrors(const PlainErrors&) = delete;
  PlainErrors& operator=(const PlainErrors&) = delete;

 private:
  bool outer_;
};

}  // namespace mydev
