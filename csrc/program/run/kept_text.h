// Texts that live as long as the process, as those want them who tell of failures later. Each text once. Thread-safe.
#pragma once

#include <string>

namespace mydev::program {

const char* kept_text(const std::string& text);

}  // namespace mydev::program
