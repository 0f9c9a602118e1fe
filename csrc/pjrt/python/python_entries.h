// The plugin's requests to pjrt_mydev's Python, and how it answers Python's.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "pjrt/base/error.h"

namespace mydev::pjrt {

// To be called before a program is loaded that another process may have compiled: the functions that it calls may have
// to be prepared, which was done there. Thread-safe; does nothing if Python asked for nothing.
void prepare_to_load();

// The text of this thread's last answer.
inline thread_local std::string last_answer;

// Runs body(). Returns the code of what it raised, and as text the message of that, or else what body() returned. The
// text is valid until this thread's next call.
template <typename Body>
int32_t answer(const char** out_text, const Body& body) {
  std::string text;
  Failure failure = failure_of([&] {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
    } else {
      text = body();
    }
  });
  last_answer = failure.failed() ? std::move(failure.message) : std::move(text);
  *out_text = last_answer.c_str();
  return failure.code;
}

}  // namespace mydev::pjrt
