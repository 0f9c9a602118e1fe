// The groups of the suite for drivers: each is a file of this directory. suite.cpp has their order.
#pragma once

#include <vector>

#include "conform/case.h"

namespace mydev::conform {

std::vector<Case> handshake_cases();
std::vector<Case> memory_cases();
std::vector<Case> copy_cases();
std::vector<Case> strided_copy_cases();
std::vector<Case> stream_cases();
std::vector<Case> event_cases();
std::vector<Case> launch_cases();
std::vector<Case> completion_cases();
std::vector<Case> compiled_kernel_cases();
std::vector<Case> program_cases();
std::vector<Case> collective_cases();
std::vector<Case> failure_cases();
std::vector<Case> host_access_cases();
std::vector<Case> thread_cases();

}  // namespace mydev::conform
