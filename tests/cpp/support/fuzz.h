// Fuzzing as a test: random inputs of a fixed seed, for a bounded number of rounds.
//
// FUZZ_MINUTES=2 runs each target that long instead, FUZZ_SEED=7 elsewhere. A failure says which seed and round it was.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

namespace mydev {

// Calls body(random) once per round; stops at the first failed assertion.
template <typename Body>
void fuzz(unsigned usual_rounds, unsigned usual_seed, const Body& body) {
  using Clock = std::chrono::steady_clock;
  const char *minutes = std::getenv("FUZZ_MINUTES"), *given_seed = std::getenv("FUZZ_SEED");
  const auto seed = given_seed != nullptr ? static_cast<unsigned>(std::strtoul(given_seed, nullptr, 10)) : usual_seed;
  const std::chrono::duration<double, std::ratio<60>> time(minutes != nullptr ? std::strtod(minutes, nullptr) : 0);
  const Clock::time_point begin = Clock::now();
  std::mt19937 random(seed);
  for (unsigned round = 0; !testing::Test::HasFatalFailure(); ++round) {
    if (minutes != nullptr ? Clock::now() - begin >= time : round == usual_rounds) break;
    SCOPED_TRACE(testing::Message() << "FUZZ_SEED=" << seed << ", round " << round);
    body(random);
  }
}

}  // namespace mydev
