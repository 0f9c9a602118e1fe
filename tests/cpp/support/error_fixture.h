// For tests of what is refused: the error that an action raises.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/status.h"

namespace mydev {

// An error of code OK if there is none.
template <typename Action>
Error error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {MYDEV_OK, ""};
}

inline void expect_error(const Error& error, mydev_code code, const std::string& part_of_message) {
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
}

}  // namespace mydev
