#include "program/run/interned_string.h"

#include <mutex>
#include <set>

namespace mydev::program {

const char* interned_string(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts.insert(text).first->c_str();
}

}  // namespace mydev::program
