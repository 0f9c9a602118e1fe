// Fuzzing as a test: random inputs of a fixed seed, for a bounded number of rounds.
//
// FUZZ_ROUNDS=1000000 runs each target for longer, FUZZ_SEED=7 elsewhere. A failure says which seed and round it was.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace mydev {

inline unsigned fuzz_setting(const char* name, unsigned usual) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : usual;
}

// Calls body(random) once per round; stops at the first failed assertion.
template <typename Body>
void fuzz(unsigned usual_rounds, unsigned usual_seed, const Body& body) {
  const unsigned rounds = fuzz_setting("FUZZ_ROUNDS", usual_rounds), seed = fuzz_setting("FUZZ_SEED", usual_seed);
  std::mt19937 random(seed);
  for (unsigned round = 0; round < rounds && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "FUZZ_SEED=" << seed << ", round " << round);
    body(random);
  }
}

}  // namespace mydev
