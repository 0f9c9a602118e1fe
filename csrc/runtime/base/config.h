// The environment variables of the whole project: one table, one parser.
//
// Every MYDEV_* variable has a row in config.cpp, whichever layer or language reads it. Values are read from the
// environment when asked for, unless the process has set one of its own. A MYDEV_* variable that has no row is probably
// a slip of the pen: config_warnings() names it and the nearest row. Thread-safe as long as nobody writes the
// environment meanwhile.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/api.h"

namespace mydev {

struct ConfigVariable {
  const char* name;
  const char* default_value;
  const char* choices;                               // "warn|allow|error"; nullptr: text
  const char* doc;                                   // one line
  bool (*accepts)(std::string_view text) = nullptr;  // of text that has a form; nullptr: any
  const char* form = nullptr;                        // what it then takes
};

MYDEV_API std::span<const ConfigVariable> config_variables() noexcept;

// The effective value: the process's own, else the environment's, else the default. Raises INVALID_ARGUMENT, naming the
// variable and what it takes, for a value that does not fit; INTERNAL for a name that has no row.
MYDEV_API std::string config_string(std::string_view name);

// Sets the value for this process, not for those that it starts. Raises as config_string does.
MYDEV_API void set_config(std::string_view name, std::string value);

// Raises as config_string does for the first variable whose value does not fit.
MYDEV_API void check_config();

// One line for each MYDEV_* variable of the environment that has no row.
MYDEV_API std::vector<std::string> config_warnings();

}  // namespace mydev
